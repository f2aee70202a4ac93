import { Chip } from "../parts/chip";
import { counted } from "../parts/words";
import type { PoolHealth } from "./pools";

/** Whether every lane takes calls on every agent that reports. */
export const isWhole = (pool: PoolHealth): boolean => !pool.unknown && pool.exhaustedOn === 0 && pool.reducedOn === 0 && pool.lanesDown === 0;

export function PoolChip({ pool }: { pool: PoolHealth }) {
  if (pool.exhaustedOn > 0) return <Chip kind="failing">failing on {pool.exhaustedOn} of {pool.reporting}</Chip>;
  if (pool.unknown) return <Chip kind="unknown">no report</Chip>;
  return isWhole(pool) ? <Chip kind="calm">takes calls</Chip> : <Chip kind="degraded">reduced</Chip>;
}

export function poolLine(pool: PoolHealth): string {
  if (pool.unknown) return "No agent reports on it.";
  if (pool.exhaustedOn > 0) return `No lane of ${pool.lanes} takes calls there.`;
  if (isWhole(pool)) return pool.lanes === 1 ? `Its only lane takes calls on ${counted(pool.reporting, "agent")}.` : `All of its ${pool.lanes} lanes take calls on ${counted(pool.reporting, "agent")}.`;
  const lanes = pool.lanesDown > 0 ? `${pool.lanes - pool.lanesDown} of ${pool.lanes} lanes take calls everywhere` : `some of ${pool.lanes} lanes are refused on ${counted(pool.reducedOn, "agent")}`;
  return `Callers are served: ${lanes}.`;
}
