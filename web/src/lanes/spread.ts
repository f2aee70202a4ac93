import type { Schemas } from "../api/client";
import { counted } from "../parts/words";

/** How an agent count reads: the part that matters, of all that report. */
export function spread({ agents }: Pick<Schemas["CellView"], "agents">): string {
  if (agents.open > 0) return `open on ${agents.open} of ${agents.reporting}`;
  if (agents.half_open > 0) return `half-open on ${agents.half_open} of ${agents.reporting}`;
  if (agents.parked > 0) return `avoided on ${agents.parked} of ${agents.reporting}`;
  if (agents.reporting === 0) return agents.stale > 0 ? `${counted(agents.stale, "agent")} silent` : "no agent";
  return `closed on ${agents.closed} of ${agents.reporting}`;
}
