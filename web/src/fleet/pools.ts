// What the cells say of whole pools: can a caller be served on each agent? A pure function, so that
// the page and its tests see the same.

import type { Schemas } from "../api/client";

export interface PoolHealth {
  gateway: string;
  pool: string;
  /** Lanes of the pool. */
  lanes: number;
  /** Lanes that refuse on every agent that reports. */
  lanesDown: number;
  /** Agents that report on the pool. */
  reporting: number;
  /** Agents on which every lane refuses. */
  exhaustedOn: number;
  /** Agents on which at least one lane refuses and one does not. */
  reducedOn: number;
  /** Agents that are silent. */
  stale: number;
  /** No agent reports, so nothing is known. */
  unknown: boolean;
}

const refuses = (state: string): boolean => state === "open" || state === "half_open";

/** The health of every named pool. `cells` must hold closed cells and each agent's view. */
export function poolsOf(cells: readonly Schemas["CellView"][]): PoolHealth[] {
  const ownCells = new Map<string, Set<string>>();
  for (const cell of cells) {
    if (cell.lane == null) ownCells.set(`${cell.gateway}\n${cell.provider}`, refusing(cell));
  }
  const pools = new Map<string, Schemas["CellView"][]>();
  for (const cell of cells) {
    if (cell.pool == null || cell.pool === "" || cell.lane == null) continue;
    const key = `${cell.gateway}\n${cell.pool}`;
    const members = pools.get(key);
    if (members) members.push(cell);
    else pools.set(key, [cell]);
  }
  return [...pools.values()].map((members) => health(members, ownCells));
}

/** The instances that refuse a cell. */
function refusing(cell: Schemas["CellView"]): Set<string> {
  return new Set((cell.by_agent ?? []).filter((agent) => refuses(agent.state)).map((agent) => agent.instance));
}

function health(members: Schemas["CellView"][], ownCells: ReadonlyMap<string, Set<string>>): PoolHealth {
  const [first] = members;
  const lanes = new Map<string, Schemas["CellView"][]>();
  for (const cell of members) lanes.set(cell.lane ?? "", [...(lanes.get(cell.lane ?? "") ?? []), cell]);
  const reporting = Math.max(0, ...members.map((cell) => cell.agents.reporting));
  const refusedLanes = new Map<string, number>();
  let lanesDown = 0;
  for (const endpoints of lanes.values()) {
    const down = new Set(downOn(endpoints));
    const own = endpoints[0] && ownCells.get(`${endpoints[0].gateway}\n${endpoints[0].provider}`);
    for (const instance of own ?? []) down.add(instance);
    if (reporting > 0 && down.size >= reporting) lanesDown += 1;
    for (const instance of down) refusedLanes.set(instance, (refusedLanes.get(instance) ?? 0) + 1);
  }
  const counts = [...refusedLanes.values()];
  return {
    gateway: first?.gateway ?? "",
    pool: first?.pool ?? "",
    lanes: lanes.size,
    lanesDown,
    reporting,
    exhaustedOn: counts.filter((count) => count >= lanes.size).length,
    reducedOn: counts.filter((count) => count < lanes.size).length,
    stale: Math.max(0, ...members.map((cell) => cell.agents.stale)),
    unknown: reporting === 0,
  };
}

/** The instances on which each endpoint of a lane refuses. */
function downOn(endpoints: Schemas["CellView"][]): string[] {
  const [first, ...others] = endpoints.map(refusing);
  return [...(first ?? [])].filter((instance) => others.every((other) => other.has(instance)));
}
