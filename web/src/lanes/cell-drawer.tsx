// One cell in full: why it is what it is, agent by agent, and what can be done about it.

import { Drawer, Group, Stack, Table, Text } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, answered, type Schemas } from "../api/client";
import { LIVE } from "../api/reads";
import { useMay } from "../app/session";
import { reasonsText } from "../fleet/pools";
import { type CellState, causeText, keyOf } from "../live/cell";
import { Chip, Meter } from "../parts/chip";
import { RoleButton } from "../parts/role-button";
import { Failed, Loading, Panel } from "../parts/states";
import { Age, Left } from "../parts/time";
import { counted } from "../parts/words";
import { OverrideForm } from "./override-form";
import { OverrideList } from "./override-list";
import { type Action, concerns, useOverrides } from "./overrides";

/** Agents listed; in a large fleet those that refuse come first. */
const AGENTS_MAX = 200;

export function CellDrawer({ cell, name, close }: { cell: CellState | undefined; name: string; close: () => void }) {
  return (
    <Drawer opened onClose={close} position="right" size="lg" title={<Text fw={700} fz="lg" style={{ overflowWrap: "anywhere" }}>{name}</Text>} closeButtonProps={{ "aria-label": "Close" }}>
      {cell ? <Body cell={cell} /> : <Text>This cell is not in the current documents: its pool, lane or provider was removed or renamed.</Text>}
    </Drawer>
  );
}

function Body({ cell }: { cell: CellState }) {
  const [acting, setActing] = useState<Action | null>(null);
  const overrides = useOverrides(cell.gateway);
  const mine = overrides.data?.items.filter((override) => concerns(override, cell)) ?? [];
  return (
    <Stack gap="md">
      <Why cell={cell} />
      {acting ? <OverrideForm key={acting} cell={cell} first={acting} done={() => setActing(null)} /> : <Actions act={setActing} />}
      {mine.length > 0 && <Panel title="Overrides of this lane" level={3}><OverrideList overrides={mine} /></Panel>}
      {overrides.isError && <Failed error={overrides.error} />}
      <Panel title="Agents" level={3}><ByAgent cell={cell} /></Panel>
    </Stack>
  );
}

/** The state in words: what, since when, why, what next. */
function Why({ cell }: { cell: CellState }) {
  const { agents } = cell;
  return (
    <div>
      <Group gap="xs" mb={8}>
        <Chip kind={cell.state} />
        {cell.scope && <Chip kind={cell.scope === "fleet" ? "open" : "late"}>{cell.scope === "fleet" ? "fleet-wide" : cell.scope === "local" ? "one agent or few" : "part of the fleet"}</Chip>}
        {cell.override && <Chip kind="override" />}
        {cell.advisory?.active && <Chip kind="late">advised</Chip>}
      </Group>
      <Meter parts={[["open", agents.open], ["half_open", agents.half_open], ["closed", agents.closed], ["stale", agents.stale]]} />
      <Text size="sm" mt="xs">
        {cell.cause ? `Because of ${causeText(cell.cause)}, ${counted(cell.cause.count, "time")}.` : cell.state === "closed" ? "No agent refuses it." : cell.state === "unknown" ? "All agents that knew it are silent." : "The cause was not reported."}
        {cell.opened_for_secs != null && <> Not closed for <Age at={cell.at - cell.opened_for_secs * 1000} suffix="" />.</>}
        {cell.flaps > 0 && ` It opened again ${counted(cell.flaps, "time")} since.`}
        {cell.next_probe_in_secs != null && <> Next probe <Left at={cell.at + cell.next_probe_in_secs * 1000} over="is due" />.</>}
        {cell.unusable && cell.unusable.agents > 0 && ` Cannot serve on ${counted(cell.unusable.agents, "agent")}: ${reasonsText(cell.unusable.reasons)}.`}
        {agents.parked > 0 && ` Avoided for now on ${counted(agents.parked, "agent")}.`}
      </Text>
      <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>{cell.gateway} · provider {cell.provider} · {counted(cell.trips, "trip")} since the agents started</Text>
    </div>
  );
}

function Actions({ act }: { act: (action: Action) => void }) {
  const { may, why } = useMay("operator");
  const button = (action: Action, label: string) => <RoleButton needs="operator" size="compact-md" onClick={() => act(action)}>{label}</RoleButton>;
  return (
    <div>
      <Group gap="xs">
        {button("force_open", "Force open…")}
        {button("force_close", "Force close…")}
        {button("drain", "Drain…")}
        {button("reset", "Reset…")}
      </Group>
      {!may && <Text size="sm" c="dimmed" mt={4}>{why}</Text>}
    </div>
  );
}

const ORDER = { open: 0, half_open: 1, stale: 2, closed: 3 } as const;
const byName = new Intl.Collator("en", { numeric: true }).compare;

function ByAgent({ cell }: { cell: CellState }) {
  const { gateway, pool, lane, provider } = cell;
  const query = { gateway, include: "closed", detail: "agents", ...(lane == null ? { provider } : { pool: pool ?? "", lane }) } as const;
  const read = useQuery({
    queryKey: [LIVE, "cell", keyOf(cell)],
    queryFn: async () => ({ view: await answered(api.GET("/api/v1/breaker-state", { params: { query } })), at: Date.now() }),
    placeholderData: keepPreviousData,
  });
  if (read.isPending) return <Loading />;
  if (read.isError) return <Failed error={read.error} retry={() => void read.refetch()} />;
  const found = read.data.view.cells.find((each) => keyOf(each) === keyOf(cell));
  const agents: Schemas["AgentCell"][] = [...(found?.by_agent ?? [])].sort((a, b) => ORDER[a.state] - ORDER[b.state] || byName(a.agent, b.agent));
  const closed = found?.agents.closed ?? 0;
  return (
    <>
      {agents.length > 0 && (
        <Table className="cards">
          <Table.Thead><Table.Tr><Table.Th>Agent</Table.Th><Table.Th>State</Table.Th><Table.Th>For</Table.Th><Table.Th>Next probe</Table.Th></Table.Tr></Table.Thead>
          <Table.Tbody>
            {agents.slice(0, AGENTS_MAX).map((agent) => (
              <Table.Tr key={agent.instance}>
                <Table.Td><Link to="/agents/$id" params={{ id: agent.instance }}>{agent.agent}</Link></Table.Td>
                <Table.Td><div><Chip kind={agent.state}>{agent.state === "stale" ? "silent" : undefined}</Chip>{(agent.unusable ?? []).length > 0 && <div className="small">cannot serve: {reasonsText(agent.unusable ?? [])}</div>}</div></Table.Td>
                <Table.Td data-label="For"><Age at={read.data.at - agent.age_secs * 1000} suffix="" /></Table.Td>
                <Table.Td data-label="Next probe">{agent.state === "open" ? <Left at={read.data.at + agent.cooldown_remaining_secs * 1000} over="due" /> : "–"}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
      {agents.length > AGENTS_MAX && <Text size="sm" mt="xs">The first {AGENTS_MAX} of {counted(agents.length, "agent")} are shown.</Text>}
      <Text size="sm" mt="xs" c="dimmed">{closed > 0 ? `Closed on ${counted(closed, "agent")}.` : agents.length === 0 ? "No agent reports on it." : "Closed on no agent."}</Text>
    </>
  );
}

