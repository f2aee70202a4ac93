import { Grid, Group, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { api, answered, Problem, type Schemas } from "../api/client";
import { type Document, useDocument } from "../api/config";
import { LIVE } from "../api/reads";
import { POLL_MS } from "../app/queries";
import { PageTitle } from "../app/shell";
import { asYaml } from "../editor/places";
import { PoolChip } from "../fleet/pool-chip";
import { latency, percent, type Pool, poolLine, reasonsText } from "../fleet/pools";
import { causeText, keyOf } from "../live/cell";
import { useLive } from "../live/stream";
import { Chip } from "../parts/chip";
import { Empty, Failed, Loading, Panel } from "../parts/states";
import { counted } from "../parts/words";

const route = getRouteApi("/pools/$gateway/$pool");

export function PoolPage() {
  const { gateway, pool } = route.useParams();
  const document = useDocument(gateway);
  const read = useQuery({
    queryKey: [LIVE, "pool", gateway, pool],
    refetchInterval: POLL_MS,
    queryFn: () => answered(api.GET("/api/v1/pools/{gateway}/{pool}", { params: { path: { gateway, pool } } })),
  });
  const gone = read.error instanceof Problem && read.error.status === 404;
  return (
    <>
      <PageTitle title={pool}>
        <Group gap="sm">
          {read.data && <PoolChip pool={read.data} />}
          <Link to="/gateways/$gateway/edit" params={{ gateway }} search={{ pool }}>Edit</Link>
        </Group>
      </PageTitle>
      <Text size="sm" c="dimmed" mb="md">{gateway}{read.data && ` · ${poolLine(read.data)}`}</Text>
      {gone ? <Empty title="No such pool"><Link to="/pools" search={{ gateway }}>All pools of {gateway}</Link></Empty> : read.isPending ? <Loading rows={5} /> : read.isError ? <Failed error={read.error} retry={() => void read.refetch()} /> : (
        <Stack gap="md">
          <Members view={read.data} document={document.data?.data} />
          <Grid gap="md">
            <Grid.Col span={{ base: 12, md: 6 }}><Traffic title="Calls in the last minute" traffic={read.data.last_minute} view={read.data} /></Grid.Col>
            <Grid.Col span={{ base: 12, md: 6 }}><Traffic title="Calls in the last ten minutes" traffic={read.data.last_ten_minutes} view={read.data} /></Grid.Col>
          </Grid>
          {document.isError ? <Failed error={document.error} /> : document.data && <Policy document={document.data.data} pool={pool} />}
        </Stack>
      )}
    </>
  );
}

function Members({ view, document }: { view: Pool; document: Document | undefined }) {
  const { cells } = useLive();
  const weights = new Map(document?.pools?.[view.pool]?.members.map((member) => [member.target, member.weight ?? 1]));
  return (
    <Panel title="Members">
      <Table className="cards">
        <Table.Thead><Table.Tr>{["Lane", "Provider", "Weight", "Traffic now", "State", "Can serve on", "Why not"].map((title) => <Table.Th key={title}>{title}</Table.Th>)}</Table.Tr></Table.Thead>
        <Table.Tbody>
          {view.members.map((member) => {
            const cell = [...cells.values()].find((each) => each.gateway === view.gateway && each.pool === view.pool && each.lane === member.lane);
            const reasons = reasonsText(member.unusable.reasons);
            return (
              <Table.Tr key={member.lane}>
                <Table.Td>{cell ? <Link to="/lanes" search={{ gateway: view.gateway, pool: view.pool, cell: keyOf(cell) }} className="name">{member.lane}</Link> : <span className="name">{member.lane}</span>}</Table.Td>
                <Table.Td data-label="Provider">{member.provider}</Table.Td>
                <Table.Td data-label="Weight" className="number">{weights.get(member.lane) ?? "–"}</Table.Td>
                <Table.Td data-label="Traffic now" className="number">{percent(member.traffic_share)}</Table.Td>
                <Table.Td data-label="State"><Chip kind={member.state} /></Table.Td>
                <Table.Td data-label="Can serve on" className="number">{member.usable_on} of {counted(view.agents.reporting, "agent")}</Table.Td>
                <Table.Td data-label="Why not">{[causeText(cell?.cause), reasons && `${reasons} (${counted(member.unusable.agents, "agent")})`].filter(Boolean).join("; ") || "–"}</Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
      <Text size="sm" c="dimmed" mt="xs">Traffic now is each member's share of the pool's attempts over the last minute.</Text>
    </Panel>
  );
}

function Traffic({ title, traffic, view }: { title: string; traffic: Schemas["PoolTrafficView"]; view: Pool }) {
  const rows: [string, string][] = [
    ["Calls", traffic.requests.toLocaleString("en")],
    ["Answered well", traffic.ok.toLocaleString("en")],
    ["Failed", `${(traffic.failed + traffic.exhausted).toLocaleString("en")} (${percent(traffic.error_share)})`],
    ["No member left", traffic.exhausted.toLocaleString("en")],
    ["At fault themselves", traffic.client_fault.toLocaleString("en")],
    ["Caller left", traffic.cancelled.toLocaleString("en")],
    ["Failovers", traffic.failovers.toLocaleString("en")],
    ["First content p50, p99", `${latency(traffic.first_content_p50_secs)}, ${latency(traffic.first_content_p99_secs)}`],
    ["Whole answer p50, p99", `${latency(traffic.whole_p50_secs)}, ${latency(traffic.whole_p99_secs)}`],
    ["In flight, waiting", `${view.in_flight.toLocaleString("en")}, ${view.queued.toLocaleString("en")}`],
  ];
  return (
    <Panel title={title}>
      <dl className="facts">{rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd className="number">{value}</dd></div>)}</dl>
      {traffic.over_secs > 0 && traffic.over_secs < 55 && <Text size="sm" c="dimmed" mt="xs">Over {Math.round(traffic.over_secs)} s: the server has not listened for longer.</Text>}
    </Panel>
  );
}

function Policy({ document, pool }: { document: Document; pool: string }) {
  const written = document.pools?.[pool];
  if (!written) return null;
  const breaker = written.breaker ?? document.defaults?.breaker ?? {};
  const rest = Object.fromEntries(Object.entries(written).filter(([field]) => field !== "members" && field !== "breaker"));
  return (
    <Grid gap="md">
      <Grid.Col span={{ base: 12, md: 6 }}><Panel title="Breaker policy as written"><Written value={breaker} none="The defaults of this version, see docs/presets.md." /></Panel></Grid.Col>
      <Grid.Col span={{ base: 12, md: 6 }}><Panel title="Everything else"><Written value={rest} none="Defaults." /></Panel></Grid.Col>
    </Grid>
  );
}

function Written({ value, none }: { value: object; none: string }) {
  if (Object.keys(value).length === 0) return <Text size="sm">{none}</Text>;
  return <pre className="written" tabIndex={0}>{asYaml(value)}</pre>;
}
