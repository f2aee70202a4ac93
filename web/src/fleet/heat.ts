// The lane x agent matrix, and what its pattern says: a row is the provider, a column is one agent.

import type { Schemas } from "../api/client";
import { nameOf } from "../live/cell";
import { listed } from "../parts/words";

/** States of one place, as small numbers: the matrix of a large fleet has half a million. */
export const HEAT = { none: 0, closed: 1, half_open: 2, open: 3, stale: 4, unusable: 5 } as const;
export const HEAT_WORDS = ["not reported", "closed", "half-open", "open", "silent", "cannot serve"] as const;

export interface Column {
  instance: string;
  name: string;
  stale: boolean;
}

export interface Matrix {
  rows: Schemas["CellView"][];
  columns: Column[];
  /** Row by row, one of {@link HEAT} for each column. */
  places: Uint8Array;
}

const byName = new Intl.Collator("en", { numeric: true }).compare;

/**
 * The matrix of one gateway. Agents of which only a cell speaks are columns as well, so that an agent
 * that refuses is seen even when the list of agents is cut.
 */
export function matrixOf(cells: readonly Schemas["CellView"][], agents: readonly Schemas["AgentView"][]): Matrix {
  const columns = new Map<string, Column>();
  for (const agent of agents) {
    if (agent.state === "gone") continue;
    columns.set(agent.instance, { instance: agent.instance, name: agent.name, stale: agent.state === "stale" });
  }
  for (const cell of cells) {
    for (const agent of cell.by_agent ?? []) {
      if (!columns.has(agent.instance)) {
        columns.set(agent.instance, { instance: agent.instance, name: agent.agent, stale: agent.state === "stale" });
      }
    }
  }
  const sorted = [...columns.values()].sort((a, b) => byName(a.name, b.name) || byName(a.instance, b.instance));
  const index = new Map(sorted.map((column, place) => [column.instance, place]));
  const rows = [...cells].sort((a, b) => byName(a.provider, b.provider) || byName(nameOf(a), nameOf(b)));
  const places = new Uint8Array(rows.length * sorted.length);
  rows.forEach((cell, row) => {
    const start = row * sorted.length;
    const usual = cell.agents.reporting > 0 ? HEAT.closed : HEAT.none;
    sorted.forEach((column, place) => {
      places[start + place] = column.stale ? HEAT.stale : usual;
    });
    for (const agent of cell.by_agent ?? []) {
      const place = index.get(agent.instance);
      if (place !== undefined) places[start + place] = agent.state === "closed" && isHindered(agent) ? HEAT.unusable : HEAT[agent.state];
    }
  });
  return { rows, columns: sorted, places };
}

/** Closed, and yet it cannot serve: for a reason that somebody should look at. */
const isHindered = (agent: Schemas["AgentCell"]): boolean =>
  (agent.unusable ?? []).some((reason) => reason === "missing_key" || reason === "bad_address" || reason === "budget_spent" || reason === "permits_gone" || reason === "other");

const refused = (place: number | undefined): boolean => place === HEAT.open || place === HEAT.half_open || place === HEAT.unusable;

/** What the pattern says, in sentences; empty when nothing is refused. */
export function patterns({ rows, columns, places }: Matrix): string[] {
  const fresh = columns.filter((column) => !column.stale).length;
  const wide = new Set<number>();
  const providers = new Map<string, { lanes: number; agents: number }>();
  rows.forEach((cell, row) => {
    let count = 0;
    for (let column = 0; column < columns.length; column += 1) if (refused(places[row * columns.length + column])) count += 1;
    if (fresh < 2 || count < 2 || count * 2 < fresh) return;
    wide.add(row);
    const seen = providers.get(cell.provider) ?? { lanes: 0, agents: 0 };
    providers.set(cell.provider, { lanes: seen.lanes + 1, agents: Math.max(seen.agents, count) });
  });
  const texts = [...providers].map(
    ([provider, { lanes, agents }]) =>
      `The provider: ${provider} is refused on ${agents} of ${fresh} agents (${lanes === 1 ? "1 lane" : `${lanes} lanes`}).`,
  );
  const nodes = columns.filter((column, place) => {
    if (column.stale) return false;
    let own = 0;
    for (let row = 0; row < rows.length; row += 1) if (!wide.has(row) && refused(places[row * columns.length + place])) own += 1;
    return own > 0 && own * 2 >= rows.length - wide.size;
  });
  if (nodes.length > 0 && nodes.length * 2 < Math.max(fresh, 2)) {
    const names = listed(nodes.map((node) => node.name));
    texts.push(`${nodes.length === 1 ? "One agent" : "Some agents"}: ${names} ${nodes.length === 1 ? "refuses" : "refuse"} lanes that the others pass.`);
  }
  return texts;
}
