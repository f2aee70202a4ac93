// The one sentence at the top: is somebody being failed right now? Nothing is called healthy unless
// everything that should report does and says so.

import type { Schemas } from "../api/client";
import type { Phase } from "../live/stream";
import { counted, listed } from "../parts/words";
import { poolName } from "../live/cell";
import type { PoolHealth } from "./pools";

export interface Known {
  phase: Phase;
  partial: boolean;
  summary: Schemas["Summary"] | undefined;
  pools: readonly PoolHealth[] | undefined;
  /** Cells that are open or half-open without an operator's override. */
  broken: readonly Schemas["CellView"][];
  /** Cells under an override. */
  overridden: readonly Schemas["CellView"][];
}

export interface Verdict {
  kind: "failing" | "degraded" | "unknown" | "calm" | "override";
  title: string;
  detail: string;
}

const named = (pool: PoolHealth): string => `${poolName(pool.pool)} of ${pool.gateway}`;

export function verdict(known: Known): Verdict {
  const { summary, pools } = known;
  if (known.phase === "loading" || !summary || !pools) {
    return { kind: "unknown", title: "Reading the fleet", detail: "Nothing is known yet." };
  }
  const failing = pools.filter((pool) => pool.exhaustedOn > 0);
  if (failing.length > 0) return failed(failing);
  if (known.phase === "lost") {
    return { kind: "unknown", title: "Disconnected: what happens now is not known", detail: "What follows is the last that was heard." };
  }
  if (summary.gateways === 0) {
    return { kind: "unknown", title: "No gateway is configured yet", detail: "Write a gateway document and apply it: lanekeeper apply -f gateway.yaml" };
  }
  if (summary.agents.live === 0) {
    return { kind: "unknown", title: "No agent reports", detail: "Nothing is known about any pool until one does." };
  }
  if (known.broken.length > 0) return degraded(known.broken);
  return quiet(known, summary, pools);
}

function failed(failing: PoolHealth[]): Verdict {
  const everywhere = failing.filter((pool) => pool.exhaustedOn >= pool.reporting);
  const [worst] = everywhere.length > 0 ? everywhere : failing;
  const where = everywhere.length > 0 ? "every agent" : worst ? `${worst.exhaustedOn} of ${worst.reporting} agents` : "";
  return {
    kind: "failing",
    title: `Callers are being failed: ${listed((everywhere.length > 0 ? everywhere : failing).map(named))}`,
    detail: `No lane of ${failing.length === 1 ? "this pool" : "these pools"} takes calls on ${where}.`,
  };
}

function degraded(broken: readonly Schemas["CellView"][]): Verdict {
  const wide = broken.filter((cell) => cell.scope === "fleet");
  const providers = [...new Set((wide.length > 0 ? wide : broken).map((cell) => cell.provider))];
  const title =
    wide.length > 0
      ? `Callers are served; ${listed(providers)} ${providers.length === 1 ? "fails" : "fail"} for the fleet`
      : `Callers are served; ${counted(broken.length, "lane is", "lanes are")} refused on some agents`;
  return { kind: "degraded", title, detail: "Other lanes of the pools take the calls over." };
}

function quiet(known: Known, summary: Schemas["Summary"], pools: readonly PoolHealth[]): Verdict {
  const doubts = [
    known.partial || summary.partial ? "part of the reports is missing" : "",
    summary.agents.stale > 0 ? `${counted(summary.agents.stale, "agent is", "agents are")} silent` : "",
    summary.cells.unknown > 0 ? `nothing is known about ${counted(summary.cells.unknown, "cell")}` : "",
    pools.some((pool) => pool.unknown) ? `no agent reports on ${listed(pools.filter((pool) => pool.unknown).map(named))}` : "",
    known.phase === "late" ? "the connection to the server is being renewed" : "",
  ].filter((doubt) => doubt !== "");
  if (doubts.length > 0) {
    return { kind: "unknown", title: "No incident is reported, but not everything is known", detail: `${sentence(doubts)}.` };
  }
  if (known.overridden.length > 0) {
    return {
      kind: "override",
      title: `Nothing is wrong; ${counted(known.overridden.length, "cell is", "cells are")} under an operator's override`,
      detail: "Every pool takes calls on every agent.",
    };
  }
  return { kind: "calm", title: "Nothing is wrong", detail: "Every pool of every gateway takes calls on every agent." };
}

function sentence(parts: string[]): string {
  const text = listed(parts, parts.length);
  return text.charAt(0).toUpperCase() + text.slice(1);
}
