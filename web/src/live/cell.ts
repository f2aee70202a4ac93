// A cell of the fleet view as the page keeps it, and how it is called.

import type { Schemas } from "../api/client";

/** A cell with the moment at which it was heard of, ms. */
export type CellState = Schemas["CellView"] & { at: number };

/** Separates cells. A provider's own cell has neither pool nor lane. */
export function keyOf(cell: Schemas["CellKey"] | Schemas["CellView"]): string {
  const provider = cell.lane == null ? cell.provider : null;
  return JSON.stringify([cell.gateway, cell.pool ?? null, cell.lane ?? null, provider, cell.endpoint ?? null]);
}

/** The name of a pool as people read it: calls that name a lane have none. */
export const poolName = (pool: string | null | undefined): string => (pool == null || pool === "" ? "direct" : pool);

/** What a cell is called: its pool and lane, or the provider whose own it is. */
export function nameOf(cell: Schemas["CellKey"] | Schemas["CellView"]): string {
  if (cell.lane == null) return `provider ${cell.provider ?? ""}`;
  const endpoint = cell.endpoint == null ? "" : ` @ ${cell.endpoint}`;
  return `${poolName(cell.pool)} › ${cell.lane}${endpoint}`;
}

const SEVERITY = { open: 0, half_open: 1, unknown: 2, closed: 3 } as const;

/** The worst first, then by name. */
export function bySeverity(a: Schemas["CellView"], b: Schemas["CellView"]): number {
  return SEVERITY[a.state] - SEVERITY[b.state] || b.agents.open - a.agents.open || nameOf(a).localeCompare(nameOf(b));
}

/** Seconds since the cell was last closed everywhere, at the moment `now`. */
export const openedFor = (cell: CellState, now: number): number | null =>
  cell.opened_for_secs == null ? null : cell.opened_for_secs + (now - cell.at) / 1000;

/** A cause in words. */
export function causeText(cause: Schemas["CauseView"] | null | undefined): string {
  if (!cause) return "";
  const kind = cause.kind.replaceAll("_", " ");
  if (cause.status == null) return kind;
  return kind === "status" ? `status ${cause.status}` : `${kind}, status ${cause.status}`;
}
