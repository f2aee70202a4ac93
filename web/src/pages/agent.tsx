import { Grid, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { api, answered, Problem } from "../api/client";
import { LIVE, useDetail } from "../api/reads";
import { PageTitle } from "../app/shell";
import { POLL_MS } from "../app/queries";
import { reasonsText } from "../fleet/pools";
import { keyOf, nameOf } from "../live/cell";
import { Chip } from "../parts/chip";
import { Empty, Failed, Loading, Panel } from "../parts/states";
import { Age } from "../parts/time";
import { revisionText, troubles } from "./agents";

const route = getRouteApi("/agents/$id");

export function AgentPage() {
  const { id } = route.useParams();
  const read = useQuery({
    queryKey: [LIVE, "agent", id],
    queryFn: async () => ({ agent: await answered(api.GET("/api/v1/agents/{id}", { params: { path: { id } } })), at: Date.now() }),
    refetchInterval: POLL_MS,
  });
  if (read.isPending) return <Loading rows={6} />;
  if (read.isError) {
    const unknown = read.error instanceof Problem && read.error.status === 404;
    return (
      <>
        <PageTitle title="Agent" />
        {unknown ? <Empty title="No such agent in the last day">A restarted process is a new agent. <Link to="/agents">All agents</Link></Empty> : <Failed error={read.error} retry={() => void read.refetch()} />}
      </>
    );
  }
  const { agent, at } = read.data;
  const facts: [string, React.ReactNode][] = [
    ["Gateway", agent.gateway],
    ["Revision", revisionText(agent)],
    ["Version", agent.version || "–"],
    ["Labels", Object.entries(agent.labels).map(([name, value]) => `${name}=${value}`).join(" ") || "none"],
    ["Last report", agent.last_report_age_secs == null ? "never" : <Age key="age" at={at - agent.last_report_age_secs * 1000} />],
    ["Clock skew", `${agent.clock_skew_secs.toFixed(1)} s`],
    ["Instance", agent.instance],
  ];
  const { totals } = agent;
  const traffic: [string, number | undefined][] = [
    ["In flight", totals.inflight], ["Requests", totals.requests], ["Answered", totals.ok], ["Failed", totals.failed], ["Failovers", totals.failovers], ["Exhausted", totals.exhausted],
  ];
  const wrong = troubles(agent);
  return (
    <>
      <PageTitle title={agent.name}><Chip kind={agent.state} /></PageTitle>
      <Stack gap="md">
        {wrong.length > 0 && <Panel title="Problems">{wrong.map((text) => <Text key={text} size="sm" c="var(--open)" style={{ overflowWrap: "anywhere" }}>{text}</Text>)}</Panel>}
        <Grid gap="md">
          <Grid.Col span={{ base: 12, md: 7 }}><Panel title="The process"><Facts facts={facts} /></Panel></Grid.Col>
          <Grid.Col span={{ base: 12, md: 5 }}><Panel title="Traffic since it started"><Facts facts={traffic.map(([name, count]) => [name, (count ?? 0).toLocaleString("en")])} /></Panel></Grid.Col>
          <Grid.Col span={12}><Panel title="Its cells"><Cells gateway={agent.gateway} instance={agent.instance} stale={agent.state === "stale" || agent.state === "gone"} /></Panel></Grid.Col>
        </Grid>
      </Stack>
    </>
  );
}

function Facts({ facts }: { facts: [string, React.ReactNode][] }) {
  return (
    <dl style={{ margin: 0, display: "grid", gridTemplateColumns: "max-content minmax(0, 1fr)", gap: "6px 16px" }}>
      {facts.map(([name, value]) => (
        <div key={name} style={{ display: "contents" }}>
          <Text component="dt" size="sm" c="dimmed">{name}</Text>
          <Text component="dd" size="sm" m={0} className="number" style={{ overflowWrap: "anywhere" }}>{value}</Text>
        </div>
      ))}
    </dl>
  );
}

function Cells({ gateway, instance, stale }: { gateway: string; instance: string; stale: boolean }) {
  const detail = useDetail(gateway);
  if (detail.isPending) return <Loading />;
  if (detail.isError) return <Failed error={detail.error} retry={() => void detail.refetch()} />;
  if (stale) return <Text size="sm">The agent is silent: what its cells are now is not known.</Text>;
  const { at } = detail.data;
  const mine = detail.data.view.cells.flatMap((cell) => (cell.by_agent ?? []).filter((each) => each.instance === instance && (each.state !== "closed" || (each.unusable ?? []).length > 0)).map((each) => ({ cell, each })));
  if (mine.length === 0) return <Text size="sm">Every cell is closed on this agent, and every lane can serve.</Text>;
  return (
    <Table className="cards">
      <Table.Thead><Table.Tr><Table.Th>State</Table.Th><Table.Th>Lane</Table.Th><Table.Th>For</Table.Th></Table.Tr></Table.Thead>
      <Table.Tbody>
        {mine.map(({ cell, each }) => (
          <Table.Tr key={keyOf(cell)}>
            <Table.Td><div><Chip kind={each.state} />{(each.unusable ?? []).length > 0 && <div className="small">cannot serve: {reasonsText(each.unusable ?? [])}</div>}</div></Table.Td>
            <Table.Td><Link to="/lanes" search={{ gateway, cell: keyOf(cell) }}>{nameOf(cell)}</Link></Table.Td>
            <Table.Td data-label="For"><Age at={at - each.age_secs * 1000} suffix="" /></Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
