import { describe, expect, it } from "vitest";
import type { Schemas } from "../api/client";
import { HEAT, matrixOf, patterns } from "./heat";
import { poolsOf } from "./pools";
import { type Known, verdict } from "./verdict";

type Cell = Schemas["CellView"];

/** A lane's cell on `agents` agents, refused on the named ones. */
function cell(lane: string, agents: number, refusedOn: string[] = [], more: Partial<Cell> = {}): Cell {
  const open = refusedOn.length;
  return {
    gateway: "edge", pool: "chat", lane, provider: `p-${lane}`, endpoint: null,
    state: open > 0 ? "open" : "closed", scope: open * 2 >= agents && open > 0 ? "fleet" : null,
    agents: { reporting: agents, closed: agents - open, open, half_open: 0, parked: 0, overridden: 0, stale: 0 },
    flaps: 0, trips: 0,
    by_agent: refusedOn.map((agent) => ({ agent, instance: agent, state: "open" as const, age_secs: 1, cooldown_remaining_secs: 1 })),
    ...more,
  };
}

const summary: Schemas["Summary"] = {
  gateways: 1, incidents: 0, partial: false,
  agents: { live: 4, draining: 0, stale: 0, gone: 0 },
  cells: { closed: 2, half_open: 0, open: 0, unknown: 0, parked: 0 },
};
const known = (cells: Cell[], more: Partial<Known> = {}): Known => ({
  phase: "live", partial: false, summary, pools: poolsOf(cells),
  broken: cells.filter((each) => each.state === "open"), overridden: [], ...more,
});
const names = ["n1", "n2", "n3", "n4"];

describe("a pool's health", () => {
  it("counts an agent as exhausted only when every lane refuses there", () => {
    const [pool] = poolsOf([cell("a", 4, ["n1", "n2"]), cell("b", 4, ["n2", "n3"])]);
    expect(pool).toMatchObject({ lanes: 2, lanesDown: 0, exhaustedOn: 1, reducedOn: 2, reporting: 4 });
  });

  it("counts a lane whose provider's own cell refuses as refused", () => {
    const own = cell("x", 4, names, { pool: null, lane: null, provider: "p-a" });
    const [pool] = poolsOf([own, cell("a", 4), cell("b", 4)]);
    expect(pool).toMatchObject({ lanes: 2, lanesDown: 1, exhaustedOn: 0, reducedOn: 4 });
  });

  it("needs all endpoints of a lane to refuse", () => {
    const endpoint = (address: string, on: string[]) => cell("a", 4, on, { endpoint: address });
    expect(poolsOf([endpoint("1", names), endpoint("2", ["n1"])])[0]).toMatchObject({ lanes: 1, exhaustedOn: 1 });
  });

  it("is unknown when nobody reports", () => {
    expect(poolsOf([cell("a", 0)])[0]).toMatchObject({ unknown: true, exhaustedOn: 0 });
  });
});

describe("the verdict", () => {
  it("puts failing callers before everything", () => {
    expect(verdict(known([cell("a", 4, names)]))).toMatchObject({ kind: "failing", title: "Callers are being failed: chat of edge" });
  });

  it("separates a provider that fails from callers that fail", () => {
    expect(verdict(known([cell("a", 4, names), cell("b", 4)]))).toMatchObject({ kind: "degraded", title: "Callers are served; p-a fails for the fleet" });
  });

  it("calls nothing healthy while anything is not known", () => {
    const cells = [cell("a", 4)];
    const agents = { ...summary.agents, stale: 1 };
    const doubts: Partial<Known>[] = [
      { partial: true },
      { phase: "late" },
      { phase: "lost" },
      { phase: "loading" },
      { summary: undefined },
      { summary: { ...summary, agents } },
      { summary: { ...summary, cells: { ...summary.cells, unknown: 1 } } },
      { summary: { ...summary, agents: { ...summary.agents, live: 0 } } },
      { summary: { ...summary, gateways: 0 } },
      { pools: poolsOf([cell("a", 0)]) },
    ];
    for (const doubt of doubts) expect(verdict(known(cells, doubt)).kind, JSON.stringify(doubt)).toBe("unknown");
    expect(verdict(known(cells)).kind).toBe("calm");
  });

  it("does not call an override an incident", () => {
    expect(verdict(known([cell("a", 4)], { overridden: [cell("a", 4)] })).kind).toBe("override");
  });
});

describe("the heat map", () => {
  const agents = names.map((name) => ({ instance: name, name, state: "live" }) as Schemas["AgentView"]);

  it("has a place for each lane on each agent, and a column for an agent that only a cell names", () => {
    const matrix = matrixOf([cell("a", 4, ["n2", "other"])], agents);
    expect(matrix.columns.map((column) => column.name)).toEqual(["n1", "n2", "n3", "n4", "other"]);
    expect([...matrix.places]).toEqual([HEAT.closed, HEAT.open, HEAT.closed, HEAT.closed, HEAT.open]);
  });

  it("separates the provider from one agent", () => {
    expect(patterns(matrixOf([cell("a", 4, names), cell("b", 4)], agents))).toEqual(["The provider: p-a is refused on 4 of 4 agents (1 lane)."]);
    expect(patterns(matrixOf([cell("a", 4, ["n3"]), cell("b", 4, ["n3"])], agents))).toEqual(["One agent: n3 refuses lanes that the others pass."]);
    expect(patterns(matrixOf([cell("a", 4), cell("b", 4)], agents))).toEqual([]);
  });

  it("shows a silent agent as silent, whatever it said last", () => {
    const silent = [{ ...agents[0], state: "stale" } as Schemas["AgentView"]];
    expect([...matrixOf([cell("a", 4)], silent).places]).toEqual([HEAT.stale]);
  });

  it("is made fast enough for 1,000 agents on 500 lanes that all refuse", () => {
    const many = Array.from({ length: 1000 }, (_, number) => `n${number}`);
    const cells = Array.from({ length: 500 }, (_, lane) => cell(`l${lane}`, 1000, many));
    const matrix = matrixOf(cells, []);
    expect(matrix.places.length).toBe(500_000);
    expect(matrix.places.every((place) => place === HEAT.open)).toBe(true);
  });
});
