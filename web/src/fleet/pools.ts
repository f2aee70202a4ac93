// What the server says of pools, in words: can a caller be served on each agent, and if not, why not?

import type { Schemas } from "../api/client";
import { counted, listed, plain } from "../parts/words";

export type Pool = Schemas["PoolView"];

const REASONS: Partial<Record<string, string>> = {
  missing_key: "its key is missing there",
  bad_address: "the provider's address cannot be used there",
  budget_spent: "its budget is spent",
  weight_zero: "its weight is 0",
  excluded: "the pool excludes it",
  permits_gone: "every permit is taken",
  provider_open: "the provider's own breaker refuses",
  cell_open: "its breaker refuses",
  empty: "the pool has no members",
  other: "another reason",
};

/** Why something cannot serve, in words. */
export const reasonsText = (reasons: readonly Schemas["UnusableReason"][]): string =>
  listed(reasons.map((reason) => REASONS[reason] ?? plain(reason)), reasons.length);

export type Health = "failing" | "unknown" | "degraded" | "calm";

/** Whether the pool's callers are served. */
export function healthOf({ agents }: Pool): Health {
  if (agents.exhausted_on > 0) return "failing";
  if (agents.reporting === 0) return "unknown";
  return agents.impaired_on > 0 ? "degraded" : "calm";
}

const RANK = { failing: 0, unknown: 1, degraded: 2, calm: 3 } as const;

/** Those first whose callers are failed, then by how much is missing, then by name. */
export const worstFirst = (a: Pool, b: Pool): number =>
  RANK[healthOf(a)] - RANK[healthOf(b)] || b.agents.exhausted_on - a.agents.exhausted_on || b.agents.impaired_on - a.agents.impaired_on
  || a.gateway.localeCompare(b.gateway) || a.pool.localeCompare(b.pool);

/** What a pool's health means for its callers. */
export function poolLine(pool: Pool): string {
  const { agents, members, usable_members: usable } = pool;
  const total = members.length;
  switch (healthOf(pool)) {
    case "failing":
      return `No member can serve on ${agents.exhausted_on} of ${counted(agents.reporting, "agent")}: ${reasonsText(pool.exhausted_reasons) || "the reason was not reported"}.`;
    case "unknown":
      return agents.stale > 0 ? `Nothing is known: ${counted(agents.stale, "agent is", "agents are")} silent.` : "No agent reports on it.";
    case "degraded":
      return `Callers are served, by ${usable?.least ?? 0} of ${counted(total, "member")} ${agents.impaired_on >= agents.reporting ? "on every agent" : `on ${agents.impaired_on} of ${counted(agents.reporting, "agent")}`}.`;
    case "calm":
      return total === 1 ? `Its only member can serve on ${counted(agents.reporting, "agent")}.` : `All ${total} members can serve on ${counted(agents.reporting, "agent")}.`;
  }
}

/** A share as a percentage; small ones are not called none. */
export function percent(share: number | null | undefined): string {
  if (share == null) return "–";
  if (share > 0 && share < 0.01) return "< 1 %";
  return `${Math.round(share * 100)} %`;
}

/** Seconds as people read latencies. */
export function latency(secs: number | null | undefined): string {
  if (secs == null) return "–";
  return secs < 1 ? `${Math.round(secs * 1000)} ms` : `${secs.toFixed(secs < 10 ? 1 : 0)} s`;
}

/** What came of a pool's calls in one span. */
export function trafficLine(traffic: Schemas["PoolTrafficView"]): string {
  if (traffic.requests === 0) return "No calls in the last minute.";
  const per = traffic.over_secs > 0 ? `${(traffic.requests / traffic.over_secs).toFixed(1)} calls a second` : counted(traffic.requests, "call");
  const failed = traffic.failed + traffic.exhausted;
  return `${per}, ${failed === 0 ? "none failed" : `${percent(traffic.error_share)} failed`}, ${counted(traffic.failovers, "failover")}, first content in ${latency(traffic.first_content_p50_secs)}`;
}
