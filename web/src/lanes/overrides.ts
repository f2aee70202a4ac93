// Overrides: what they will do, said before they are given, and how far they are.

import { useQuery } from "@tanstack/react-query";
import { api, answered, type Schemas } from "../api/client";
import { LIVE, pageQuery, whole } from "../api/reads";
import { poolName } from "../live/cell";
import { counted } from "../parts/words";

export type Action = Schemas["OrderedAction"];

/** Whose breaker an override is about: a lane's, in one pool or all, or a provider's own. */
export type Target = { gateway: string } & ({ lane: string; pool: string | null } | { provider: string });

/** Polls while an acknowledgement is missing, and when none is, ms. */
const PENDING_MS = 700;
const SETTLED_MS = 5000;

export const useOverrides = (gateway: string) =>
  useQuery({
    queryKey: [LIVE, "overrides", gateway],
    queryFn: () =>
      whole<Schemas["OverrideInfo"]>(async (cursor) => {
        const page = await answered(api.GET("/admin/v1/gateways/{gateway}/overrides", { params: { path: { gateway }, query: pageQuery(cursor) } }));
        return { items: page.overrides, next: page.next_cursor };
      }),
    refetchInterval: (query) => (query.state.data?.items.some((each) => each.agents_pending > 0) ? PENDING_MS : SETTLED_MS),
  });

/** Whether an override is about the breaker of a cell. */
export function concerns(override: Schemas["OverrideInfo"], cell: Schemas["CellView"]): boolean {
  if (cell.lane == null) return override.provider === cell.provider;
  return override.lane === cell.lane && (override.pool == null || override.pool === cell.pool);
}

/** The name of what an override is about. */
export function targetText(target: { lane?: string | null; pool?: string | null; provider?: string | null }): string {
  if (target.provider != null) return `provider ${target.provider}`;
  const where = target.pool == null ? "in all pools and on its direct route" : target.pool === "" ? "on its direct route" : `in pool ${target.pool}`;
  return `${target.lane ?? ""} ${where}`;
}

const DOES: Record<Action, string> = {
  force_open: "Refuses every call to",
  force_close: "Lets every call through to",
  drain: "Begins no new calls to, and lets running ones finish on,",
  reset: "Closes the breakers and forgets the history of",
};

/** What is left of each pool when a lane is refused. */
export function whatIsLeft(cells: readonly Schemas["CellView"][], target: Target): string[] {
  const mine = cells.filter((cell) => cell.gateway === target.gateway && cell.pool != null && cell.pool !== "" && cell.lane != null);
  const hit = (cell: Schemas["CellView"]): boolean =>
    "provider" in target ? cell.provider === target.provider : cell.lane === target.lane && (target.pool === null || cell.pool === target.pool);
  const pools = [...new Set(mine.filter(hit).map((cell) => cell.pool ?? ""))];
  return pools.map((pool) => {
    const members = new Map<string, boolean>();
    for (const cell of mine.filter((each) => each.pool === pool)) {
      const takes = !hit(cell) && cell.agents.closed > 0;
      members.set(cell.lane ?? "", (members.get(cell.lane ?? "") ?? false) || takes);
    }
    const left = [...members.values()].filter(Boolean).length;
    return `${poolName(pool)} keeps ${left} of ${members.size} members`;
  });
}

/** One sentence that says what an override will do. */
export function effect(action: Action, target: Target, agents: string, secs: number | null, left: readonly string[]): string {
  const time = action === "reset" || secs === null ? ", once" : ` for ${span(secs)}`;
  const rest = (action === "force_open" || action === "drain") && left.length > 0 ? `; ${left.join(", ")}` : "";
  return `${DOES[action]} ${targetText(target)} on ${agents}${time}${rest}.`;
}

/** A time to live in words. */
export function span(secs: number): string {
  if (secs % 86_400 === 0) return counted(secs / 86_400, "day");
  if (secs % 3600 === 0) return `${secs / 3600} h`;
  if (secs % 60 === 0) return `${secs / 60} min`;
  return `${secs} s`;
}

/** Labels as they are typed: `zone=b`. Null when one is not of this form. */
export function labelsOf(texts: readonly string[]): Record<string, string> | null {
  const labels: Record<string, string> = {};
  for (const text of texts) {
    const split = text.indexOf("=");
    if (split < 1) return null;
    labels[text.slice(0, split).trim()] = text.slice(split + 1).trim();
  }
  return labels;
}

/** Whether an agent has all of the labels. */
export const hasLabels = (agent: Schemas["AgentView"], labels: Record<string, string>): boolean =>
  Object.entries(labels).every(([name, value]) => agent.labels[name] === value);
