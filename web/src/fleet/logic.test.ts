import { describe, expect, it } from "vitest";
import type { Schemas } from "../api/client";
import { HEAT, matrixOf, patterns } from "./heat";
import { percent, type Pool, poolLine } from "./pools";
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
  phase: "live", partial: false, summary, pools: [pool("chat")],
  broken: cells.filter((each) => each.state === "open"), overridden: [], ...more,
});
const names = ["n1", "n2", "n3", "n4"];

/** A pool of two members on four agents. */
function pool(name: string, agents: Partial<Pool["agents"]> = {}, more: Partial<Pool> = {}): Pool {
  const traffic = { cancelled: 0, client_fault: 0, exhausted: 0, failed: 0, failovers: 0, ok: 0, requests: 0, over_secs: 60 };
  const member = { provider: "p", state: "closed" as const, usable_on: 4, unusable: { agents: 0, reasons: [] }, last_minute: { failed: 0, ok: 0, other: 0 }, last_ten_minutes: { failed: 0, ok: 0, other: 0 } };
  return {
    gateway: "edge", pool: name, in_flight: 0, queued: 0, exhausted_reasons: [], last_minute: traffic, last_ten_minutes: traffic,
    members: [{ ...member, lane: "a" }, { ...member, lane: "b" }] as unknown as Pool["members"],
    agents: { reporting: 4, exhausted_on: 0, impaired_on: 0, stale: 0, ...agents }, usable_members: { least: 1, most: 2 }, ...more,
  };
}

describe("a pool's line", () => {
  it("says where it fails, and why", () => {
    expect(poolLine(pool("chat", { exhausted_on: 1 }, { exhausted_reasons: ["missing_key", "cell_open"] }))).toBe("No member can serve on 1 of 4 agents: its key is missing there and its breaker refuses.");
    expect(poolLine(pool("chat", { impaired_on: 2 }))).toBe("Callers are served, by 1 of 2 members on 2 of 4 agents.");
    expect(poolLine(pool("chat", { reporting: 0, stale: 3 }))).toBe("Nothing is known: 3 agents are silent.");
    expect(poolLine(pool("chat"))).toBe("All 2 members can serve on 4 agents.");
  });

  it("calls a small share of errors small, and not none", () => {
    expect([percent(0.001), percent(0), percent(null), percent(0.5)]).toEqual(["< 1 %", "0 %", "–", "50 %"]);
  });
});

describe("the verdict", () => {
  it("puts failing callers before everything, with the reason", () => {
    const failing = pool("chat", { exhausted_on: 4 }, { exhausted_reasons: ["missing_key"] });
    expect(verdict(known([], { pools: [failing] }))).toMatchObject({ kind: "failing", title: "Callers are being failed: chat of edge", detail: "No member can serve on every agent: its key is missing there." });
  });

  it("separates a provider that fails from callers that fail", () => {
    expect(verdict(known([cell("a", 4, names), cell("b", 4)]))).toMatchObject({ kind: "degraded", title: "Callers are served; p-a fails for the fleet" });
  });

  it("sees a member that cannot serve though every breaker is closed", () => {
    expect(verdict(known([], { pools: [pool("chat", { impaired_on: 4 })] })).kind).toBe("degraded");
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
      { pools: undefined },
      { summary: { ...summary, rebuilding: true } },
      { summary: { ...summary, agents } },
      { summary: { ...summary, cells: { ...summary.cells, unknown: 1 } } },
      { summary: { ...summary, agents: { ...summary.agents, live: 0 } } },
      { summary: { ...summary, gateways: 0 } },
      { pools: [pool("chat", { reporting: 0 })] },
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

  it("shows an agent without a key as one that cannot serve", () => {
    const hindered = cell("a", 4, [], { by_agent: [{ agent: "n2", instance: "n2", state: "closed", age_secs: 1, cooldown_remaining_secs: 0, unusable: ["missing_key"] }] });
    expect([...matrixOf([hindered], agents).places]).toEqual([HEAT.closed, HEAT.unusable, HEAT.closed, HEAT.closed]);
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
