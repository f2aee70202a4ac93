// The first page: callers, then incidents, then the fleet. Read from top to bottom in an incident.

import { Anchor, Grid, Group, NativeSelect, Stack, Text } from "@mantine/core";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { useAgentsOf, useDetail, useGateways, usePools, useSummary, type Whole } from "../api/reads";
import { PageTitle } from "../app/shell";
import { matrixOf } from "../fleet/heat";
import { HeatMap } from "../fleet/heat-map";
import { PoolChip } from "../fleet/pool-chip";
import { healthOf, type Pool, poolLine, trafficLine, worstFirst } from "../fleet/pools";
import { type Verdict, verdict } from "../fleet/verdict";
import { bySeverity, type CellState, causeText, keyOf, nameOf, openedFor } from "../live/cell";
import { useLive } from "../live/stream";
import { Chip, Meter } from "../parts/chip";
import { Empty, Failed, Loading, Panel } from "../parts/states";
import { Age, Left } from "../parts/time";
import { counted, plain } from "../parts/words";

/** Columns of the heat map at most. */
const HEAT_AGENTS_MAX = 1000;
/** Rows of a list on this page; the rest is a link away. */
const LIST_MAX = 12;

const route = getRouteApi("/");

export function FleetPage() {
  const live = useLive();
  const summary = useSummary();
  const pools = usePools();
  const cells = useMemo(() => [...live.cells.values()].sort(bySeverity), [live.cells]);
  const broken = cells.filter((cell) => (cell.state === "open" || cell.state === "half_open") && cell.scope != null);
  const overridden = cells.filter((cell) => cell.override != null);
  const said = verdict({ phase: live.phase, partial: live.partial, summary: summary.data, pools: pools.data?.items, broken, overridden });
  const old = live.phase === "lost" ? "faded" : undefined;
  return (
    <>
      <PageTitle title="Fleet" alarms={broken.length} />
      <Stack gap="md">
        <VerdictBanner verdict={said} />
        {summary.isError && !summary.data && <Failed error={summary.error} retry={() => void summary.refetch()} />}
        <Grid gap="md" className={old}>
          <Grid.Col span={{ base: 12, md: 6 }}><Callers pools={pools.data} error={pools.error} /></Grid.Col>
          <Grid.Col span={{ base: 12, md: 6 }}><Incidents broken={broken} loading={live.version === 0} calm={said.kind === "calm" || said.kind === "override"} /></Grid.Col>
          {overridden.length > 0 && <Grid.Col span={12}><Overrides cells={overridden} /></Grid.Col>}
          <Grid.Col span={{ base: 12, sm: 6 }}>
            <Panel title="Cells by state">
              {summary.data ? (
                <>
                  <Meter parts={[["open", summary.data.cells.open], ["half_open", summary.data.cells.half_open], ["closed", summary.data.cells.closed], ["unknown", summary.data.cells.unknown]]} />
                  {summary.data.cells.parked > 0 && <Text size="sm" c="dimmed" mt={4}>{counted(summary.data.cells.parked, "closed one is", "closed ones are")} avoided for now.</Text>}
                </>
              ) : <Loading rows={2} />}
            </Panel>
          </Grid.Col>
          <Grid.Col span={{ base: 12, sm: 6 }}>
            <Panel title="Agents" aside={<Link to="/agents" className="small">All agents</Link>}>
              {summary.data ? (
                <Meter parts={[["live", summary.data.agents.live], ["draining", summary.data.agents.draining], ["stale", summary.data.agents.stale], ["gone", summary.data.agents.gone]]} />
              ) : <Loading rows={2} />}
            </Panel>
          </Grid.Col>
          <Grid.Col span={12}><Heat /></Grid.Col>
        </Grid>
      </Stack>
    </>
  );
}

function VerdictBanner({ verdict: said }: { verdict: Verdict }) {
  return (
    <div className="verdict" data-kind={said.kind} role={said.kind === "failing" ? "alert" : "status"} data-testid="verdict">
      <h2>{said.title}</h2>
      <p>{said.detail}</p>
    </div>
  );
}

/** A pool that calls name, or direct routes that cannot serve: those that can are no news. */
const isShown = (pool: Pool): boolean => pool.pool !== "" || healthOf(pool) === "failing";

function Callers({ pools, error }: { pools: Whole<Pool> | undefined; error: Error | null }) {
  if (!pools) return <Panel title="Callers">{error ? <Failed error={error} /> : <Loading />}</Panel>;
  const all = pools.items.filter(isShown).sort(worstFirst);
  const shown = all.slice(0, LIST_MAX);
  const more = all.length - shown.length;
  const rest = all[LIST_MAX];
  return (
    <Panel title="Callers" aside={<Link to="/pools" className="small">All pools</Link>}>
      <ul className="rows">
        {shown.map((pool) => (
          <li key={`${pool.gateway} ${pool.pool}`}>
            <Group justify="space-between" gap="xs">
              <span>
                {pool.pool === "" ? <span className="name">direct routes</span> : <Link to="/pools/$gateway/$pool" params={{ gateway: pool.gateway, pool: pool.pool }} className="name">{pool.pool}</Link>}{" "}
                <span className="small">{pool.gateway}</span>
              </span>
              <PoolChip pool={pool} />
            </Group>
            <div className="small">{poolLine(pool)}</div>
            <div className="small">{trafficLine(pool.last_minute)}</div>
          </li>
        ))}
      </ul>
      {all.length === 0 && <Empty title="No pool is configured">Callers address pools of a gateway's document.</Empty>}
      {more > 0 && <Text size="sm" mt="xs">and {counted(more, "more pool")}{rest && healthOf(rest) === "calm" && ", which take calls"}</Text>}
      {!pools.complete && <Text size="sm" c="dimmed" mt="xs">There are more pools than this page reads.</Text>}
    </Panel>
  );
}

function Incidents({ broken, loading, calm }: { broken: CellState[]; loading: boolean; calm: boolean }) {
  return (
    <Panel title="Incidents now" aside={broken.length > 0 ? <Link to="/lanes" search={{ state: "open" }} className="small">All lanes that are open</Link> : undefined}>
      {loading ? <Loading /> : broken.length === 0 ? (
        calm ? <Empty title="No incident">Every lane passes on every agent.</Empty> : <Empty title="No incident is reported" />
      ) : (
        <ul className="rows">{broken.slice(0, LIST_MAX).map((cell) => <Incident key={keyOf(cell)} cell={cell} />)}</ul>
      )}
      {broken.length > LIST_MAX && <Text size="sm">and {broken.length - LIST_MAX} more</Text>}
    </Panel>
  );
}

function Incident({ cell }: { cell: CellState }) {
  const since = openedFor(cell, cell.at);
  const refusing = cell.agents.open + cell.agents.half_open;
  return (
    <li data-testid="incident">
      <Group justify="space-between" gap="xs">
        <Anchor renderRoot={(props) => <Link to="/lanes" search={{ gateway: cell.gateway, cell: keyOf(cell) }} {...props} />} className="name">{nameOf(cell)}</Anchor>
        <Chip kind={cell.state}>{cell.state === "open" ? "open" : "half-open"} on {refusing} of {cell.agents.reporting}</Chip>
      </Group>
      <div className="small">
        {cell.gateway} · {cell.provider} · {cell.cause ? causeText(cell.cause) : "cause not reported"}
        {since !== null && <> · for <Age at={cell.at - since * 1000} suffix="" /></>}
        {cell.flaps > 0 && ` · ${counted(cell.flaps, "flap")}`}
        {cell.next_probe_in_secs != null && <> · next probe <Left at={cell.at + cell.next_probe_in_secs * 1000} over="due" /></>}
        {cell.advisory?.active && " · the rest of the fleet is advised"}
      </div>
    </li>
  );
}

function Overrides({ cells }: { cells: CellState[] }) {
  return (
    <Panel title="Overrides in force">
      <ul className="rows">
        {cells.slice(0, LIST_MAX).map((cell) => (
          <li key={keyOf(cell)}>
            <Group justify="space-between" gap="xs">
              <Anchor renderRoot={(props) => <Link to="/lanes" search={{ gateway: cell.gateway, cell: keyOf(cell) }} {...props} />} className="name">{nameOf(cell)}</Anchor>
              <Chip kind="override">{plain(cell.override?.action ?? "")} on {counted(cell.override?.agents ?? 0, "agent")}</Chip>
            </Group>
            <div className="small">
              {cell.gateway}{cell.override?.reason && ` · ${cell.override.reason}`}
              {cell.override?.expires_in_secs != null && <> · ends <Left at={cell.at + cell.override.expires_in_secs * 1000} over="now" /></>}
            </div>
          </li>
        ))}
      </ul>
      {cells.length > LIST_MAX && <Text size="sm">and {cells.length - LIST_MAX} more</Text>}
    </Panel>
  );
}

function Heat() {
  const { gateway } = route.useSearch();
  const navigate = useNavigate();
  const gateways = useGateways();
  const names = gateways.data?.items.map((each) => each.name) ?? [];
  const chosen = gateway ?? names[0];
  const detail = useDetail(chosen);
  const agents = useAgentsOf(chosen, HEAT_AGENTS_MAX);
  const matrix = useMemo(
    () => (detail.data && agents.data ? matrixOf(detail.data.view.cells, agents.data.items) : undefined),
    [detail.data, agents.data],
  );
  const select = names.length > 1 && (
    <NativeSelect
      size="xs" aria-label="Gateway of the heat map" data={names} value={chosen ?? ""}
      onChange={(event) => void navigate({ to: "/", search: { gateway: event.currentTarget.value }, replace: true })}
    />
  );
  const error = detail.error ?? agents.error ?? gateways.error;
  return (
    <Panel title={chosen ? `Lanes on agents: ${chosen}` : "Lanes on agents"} aside={select}>
      {matrix ? (
        matrix.columns.length === 0 ? <Empty title="No agent serves this gateway">Start one: lanekeeper agent --control-plane URL --gateway {chosen}</Empty> : <HeatMap matrix={matrix} cut={agents.data?.complete === false} />
      ) : error ? <Failed error={error} retry={() => void detail.refetch()} /> : gateways.data && names.length === 0 ? (
        <Empty title="No gateway is configured yet">Write a gateway document and apply it: lanekeeper apply -f gateway.yaml</Empty>
      ) : <Loading rows={5} />}
    </Panel>
  );
}
