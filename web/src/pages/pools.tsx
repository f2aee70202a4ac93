import { Group, NativeSelect, Stack } from "@mantine/core";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useGateways, usePools } from "../api/reads";
import { PageTitle } from "../app/shell";
import { PoolChip } from "../fleet/pool-chip";
import { poolLine, trafficLine, worstFirst } from "../fleet/pools";
import { Empty, Failed, Loading } from "../parts/states";

const route = getRouteApi("/pools");

export function PoolsPage() {
  const search = route.useSearch();
  const navigate = useNavigate();
  const gateways = useGateways();
  const read = usePools(search.gateway);
  const pools = (read.data?.items ?? []).filter((pool) => pool.pool !== "").sort(worstFirst);
  return (
    <>
      <PageTitle title="Pools" />
      <Group align="end" gap="sm" mb="md">
        <NativeSelect
          label="Gateway" value={search.gateway ?? ""} data={[{ value: "", label: "all gateways" }, ...(gateways.data?.items ?? []).map((each) => each.name)]}
          onChange={(event) => void navigate({ to: "/pools", search: { gateway: event.currentTarget.value || undefined } })}
        />
      </Group>
      {gateways.data && (
        <Group gap="md" mb="md">
          {gateways.data.items.filter((each) => search.gateway === undefined || each.name === search.gateway).map((each) => (
            <Link key={each.name} to="/gateways/$gateway/edit" params={{ gateway: each.name }}>The whole document of {each.name}</Link>
          ))}
        </Group>
      )}
      {read.isPending ? <Loading rows={5} /> : read.isError ? <Failed error={read.error} retry={() => void read.refetch()} /> : pools.length === 0 ? (
        <Empty title="No pool is configured">Callers address pools of a gateway's document.</Empty>
      ) : (
        <Stack className="panel" gap={0}>
          <ul className="rows">
            {pools.map((pool) => (
              <li key={`${pool.gateway} ${pool.pool}`}>
                <Group justify="space-between" gap="xs">
                  <Link to="/pools/$gateway/$pool" params={{ gateway: pool.gateway, pool: pool.pool }} className="name">{pool.pool}</Link>
                  <PoolChip pool={pool} />
                </Group>
                <div className="small">{pool.gateway} · {poolLine(pool)}</div>
                <div className="small">{trafficLine(pool.last_minute)}</div>
              </li>
            ))}
          </ul>
        </Stack>
      )}
    </>
  );
}
