// The one sentence at the top: is somebody being failed right now? Nothing is called healthy unless
// everything that should report does and says so.

import type { Schemas } from "../api/client";
import { poolName } from "../live/cell";
import type { Phase } from "../live/stream";
import { counted, listed } from "../parts/words";
import { healthOf, type Pool, reasonsText } from "./pools";

export interface Known {
  phase: Phase;
  partial: boolean;
  summary: Schemas["Summary"] | undefined;
  pools: readonly Pool[] | undefined;
  /** Cells that are open or half-open other than by an operator's override. */
  broken: readonly Schemas["CellView"][];
  /** Cells under an override. */
  overridden: readonly Schemas["CellView"][];
}

export interface Verdict {
  kind: "failing" | "degraded" | "unknown" | "calm" | "override";
  title: string;
  detail: string;
}

const named = (pool: Pool): string => (pool.pool === "" ? `direct routes of ${pool.gateway}` : `${poolName(pool.pool)} of ${pool.gateway}`);

export function verdict(known: Known): Verdict {
  const { summary, pools } = known;
  if (known.phase === "loading" || !summary || !pools) {
    return { kind: "unknown", title: "Reading the fleet", detail: "Nothing is known yet." };
  }
  if (known.phase === "lost") {
    return { kind: "unknown", title: "Disconnected: what happens now is not known", detail: "What follows is the last that was heard." };
  }
  const failing = pools.filter((pool) => healthOf(pool) === "failing");
  if (failing.length > 0) return failed(failing);
  if (summary.rebuilding) {
    return { kind: "unknown", title: "Rebuilding: agents are coming back to the server", detail: "No pool is known to fail callers. Nothing is called healthy until all agents that were known have reported or had their time for it." };
  }
  if (summary.gateways === 0) {
    return { kind: "unknown", title: "No gateway is configured yet", detail: "Write a gateway document and apply it: lanekeeper apply -f gateway.yaml" };
  }
  if (summary.agents.live === 0) {
    return { kind: "unknown", title: "No agent reports", detail: "Nothing is known about any pool until one does." };
  }
  const reduced = pools.filter((pool) => healthOf(pool) === "degraded" && pool.pool !== "");
  if (known.broken.length > 0) return degraded(known.broken);
  const doubts = doubtsOf(known, summary, pools);
  if (doubts.length > 0) {
    return { kind: "unknown", title: "No incident is reported, but not everything is known", detail: `${sentence(doubts)}.` };
  }
  return quiet(known, reduced);
}

function failed(failing: Pool[]): Verdict {
  const everywhere = failing.filter((pool) => pool.agents.exhausted_on >= pool.agents.reporting);
  const worst = everywhere.length > 0 ? everywhere : failing;
  const [first] = worst;
  const where = everywhere.length > 0 ? "on every agent" : `on ${first?.agents.exhausted_on ?? 0} of ${counted(first?.agents.reporting ?? 0, "agent")}`;
  const why = reasonsText([...new Set(worst.flatMap((pool) => pool.exhausted_reasons))]);
  return {
    kind: "failing",
    title: `Callers are being failed: ${listed(worst.map(named))}`,
    detail: `No member can serve ${where}${why ? `: ${why}` : ""}.`,
  };
}

function degraded(broken: readonly Schemas["CellView"][]): Verdict {
  const wide = broken.filter((cell) => cell.scope === "fleet");
  const providers = [...new Set((wide.length > 0 ? wide : broken).map((cell) => cell.provider))];
  const title =
    wide.length > 0
      ? `Callers are served; ${listed(providers)} ${providers.length === 1 ? "fails" : "fail"} for the fleet`
      : `Callers are served; ${counted(broken.length, "lane is", "lanes are")} refused on some agents`;
  return { kind: "degraded", title, detail: "Other members of the pools take the calls over." };
}

function quiet(known: Known, reduced: Pool[]): Verdict {
  if (known.overridden.length > 0) {
    return {
      kind: "override",
      title: `Nothing is wrong; ${counted(known.overridden.length, "cell is", "cells are")} under an operator's override`,
      detail: "Every pool takes calls on every agent.",
    };
  }
  if (reduced.length > 0) {
    return { kind: "degraded", title: `Callers are served; ${listed(reduced.map(named))} ${reduced.length === 1 ? "lacks" : "lack"} members`, detail: "No breaker refuses: the members' reasons are with the pools." };
  }
  return { kind: "calm", title: "Nothing is wrong", detail: "Every pool of every gateway takes calls on every agent." };
}

function doubtsOf(known: Known, summary: Schemas["Summary"], pools: readonly Pool[]): string[] {
  const unknown = pools.filter((pool) => healthOf(pool) === "unknown");
  return [
    known.partial || summary.partial ? "part of the reports is missing" : "",
    summary.agents.stale > 0 ? `${counted(summary.agents.stale, "agent is", "agents are")} silent` : "",
    summary.cells.unknown > 0 ? `nothing is known about ${counted(summary.cells.unknown, "cell")}` : "",
    unknown.length > 0 ? `no agent reports on ${listed(unknown.map(named))}` : "",
    known.phase === "late" ? "the connection to the server is being renewed" : "",
  ].filter((doubt) => doubt !== "");
}

function sentence(parts: string[]): string {
  const text = listed(parts, parts.length);
  return text.charAt(0).toUpperCase() + text.slice(1);
}
