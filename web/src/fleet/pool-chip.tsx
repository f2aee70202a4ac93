import { Chip } from "../parts/chip";
import { healthOf, type Pool } from "./pools";

const WORDS = { failing: "", unknown: "no report", degraded: "reduced", calm: "takes calls" } as const;

export function PoolChip({ pool }: { pool: Pool }) {
  const health = healthOf(pool);
  return <Chip kind={health}>{health === "failing" ? `failing on ${pool.agents.exhausted_on} of ${pool.agents.reporting}` : WORDS[health]}</Chip>;
}
