import { Button, Group, NativeSelect, Table, Text } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { api, answered, type Schemas } from "../api/client";
import { LIVE, useGateways } from "../api/reads";
import { PageTitle } from "../app/shell";
import { POLL_MS } from "../app/queries";
import { Chip } from "../parts/chip";
import { Empty, Failed, Loading } from "../parts/states";
import { Age } from "../parts/time";
import { listed } from "../parts/words";

const ROWS = 100;

const route = getRouteApi("/agents");
type Listed = "live" | "stale" | "gone" | "draining";
const STATES: Listed[] = ["live", "draining", "stale", "gone"];

export function AgentsPage() {
  const search = route.useSearch();
  const navigate = useNavigate();
  const gateways = useGateways();
  const query = {
    limit: ROWS,
    ...(search.gateway === undefined ? {} : { gateway: search.gateway }),
    ...(STATES.find((state) => state === search.state) ? { state: search.state as Listed } : {}),
    ...(search.cursor === undefined ? {} : { cursor: search.cursor }),
  };
  const read = useQuery({
    queryKey: [LIVE, "agents", query],
    queryFn: async () => ({ page: await answered(api.GET("/api/v1/agents", { params: { query } })), at: Date.now() }),
    refetchInterval: POLL_MS,
    placeholderData: keepPreviousData,
  });
  const set = (change: Partial<typeof search>) => void navigate({ to: "/agents", search: { ...search, cursor: undefined, ...change } });
  const next = read.data?.page.next_cursor;
  return (
    <>
      <PageTitle title="Agents" />
      <Group align="end" gap="sm" mb="md">
        <NativeSelect label="Gateway" value={search.gateway ?? ""} onChange={(event) => set({ gateway: event.currentTarget.value || undefined })} data={[{ value: "", label: "all gateways" }, ...(gateways.data?.items ?? []).map((each) => each.name)]} />
        <NativeSelect label="State" value={search.state ?? ""} onChange={(event) => set({ state: event.currentTarget.value || undefined })} data={[{ value: "", label: "any state" }, ...STATES]} />
      </Group>
      {read.isPending ? <Loading rows={6} /> : read.isError ? <Failed error={read.error} retry={() => void read.refetch()} /> : (
        <AgentTable agents={read.data.page.agents} at={read.data.at} filtered={search.gateway !== undefined || search.state !== undefined} />
      )}
      <Group mt="sm">
        {search.cursor !== undefined && <Button variant="default" onClick={() => window.history.back()}>Back</Button>}
        {next != null && <Button variant="default" onClick={() => set({ cursor: next })}>Next {ROWS}</Button>}
      </Group>
    </>
  );
}

function AgentTable({ agents, at, filtered }: { agents: Schemas["AgentView"][]; at: number; filtered: boolean }) {
  if (agents.length === 0) {
    return filtered ? <Empty title="No agent matches" /> : <Empty title="No agent has joined">Start one: <code>lanekeeper agent --control-plane URL --gateway NAME</code></Empty>;
  }
  return (
    <div className="panel">
      <Table className="cards" verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>{["State", "Agent", "Gateway", "Revision", "Version", "In flight", "Requests", "Last report"].map((title) => <Table.Th key={title}>{title}</Table.Th>)}</Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {agents.map((agent) => (
            <Table.Tr key={agent.id}>
              <Table.Td><Chip kind={agent.state} /></Table.Td>
              <Table.Td>
                <div>
                  <Link to="/agents/$id" params={{ id: agent.id }} className="name">{agent.name}</Link>
                  <div className="small">{Object.entries(agent.labels).map(([name, value]) => `${name}=${value}`).join(" ")}</div>
                  {troubles(agent).map((trouble) => <Text key={trouble} size="sm" c="var(--open)">{trouble}</Text>)}
                </div>
              </Table.Td>
              <Table.Td data-label="Gateway">{agent.gateway}</Table.Td>
              <Table.Td data-label="Revision" className="number">{revisionText(agent)}</Table.Td>
              <Table.Td data-label="Version">{agent.version || "–"}</Table.Td>
              <Table.Td data-label="In flight" className="number">{(agent.totals.inflight ?? 0).toLocaleString("en")}</Table.Td>
              <Table.Td data-label="Requests" className="number">{(agent.totals.requests ?? 0).toLocaleString("en")}</Table.Td>
              <Table.Td data-label="Last report">{agent.last_report_age_secs == null ? "never" : <Age at={at - agent.last_report_age_secs * 1000} />}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

/** The applied revision, and what it should be when that differs. */
export function revisionText(agent: Schemas["AgentView"]): string {
  const applied = agent.applied_revision ? String(agent.applied_revision) : "none";
  const behind = !agent.converged && agent.target_revision != null ? ` → ${agent.target_revision}` : "";
  const source = agent.config_source === "live" ? "" : ` (from ${agent.config_source})`;
  return applied + behind + source;
}

/** What is wrong with an agent, each in a sentence. */
export function troubles(agent: Schemas["AgentView"]): string[] {
  const refused = agent.last_error;
  return [
    ...agent.problems,
    ...(refused ? [`refused revision ${refused.revision ?? "?"}: ${listed((refused.errors ?? []).map((error) => error.message))}`] : []),
  ];
}
