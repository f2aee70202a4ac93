import { Button, Group, NativeSelect, Table, Text, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { memo, useCallback, useMemo, useState } from "react";
import { PageTitle } from "../app/shell";
import { reasonsText } from "../fleet/pools";
import { CellDrawer } from "../lanes/cell-drawer";
import { spread } from "../lanes/spread";
import { bySeverity, type CellState, causeText, keyOf, nameOf } from "../live/cell";
import { useLive } from "../live/stream";
import { Chip, Meter, stateWord } from "../parts/chip";
import { Empty, Loading } from "../parts/states";
import { Age, Left } from "../parts/time";
import { counted, plain } from "../parts/words";

/** Rows drawn at first, and more at a time. */
const ROWS = 100;

const route = getRouteApi("/lanes");

export function LanesPage() {
  const { cells, version, phase } = useLive();
  const search = route.useSearch();
  const navigate = useNavigate();
  const [shown, setShown] = useState(ROWS);
  const all = useMemo(() => [...cells.values()], [cells]);
  const choices = useMemo(() => choicesOf(all), [all]);
  const found = useMemo(() => all.filter((cell) => matches(cell, search)).sort(bySeverity), [all, search]);
  const set = useCallback(
    (change: Partial<typeof search>) => void navigate({ to: "/lanes", search: (before) => ({ ...before, ...change }), replace: true }),
    [navigate],
  );
  const open = useCallback((cell: string) => void navigate({ to: "/lanes", search: (before) => ({ ...before, cell }) }), [navigate]);
  const close = () => {
    void navigate({ to: "/lanes", search: { ...search, cell: undefined } });
  };
  const select = (name: "gateway" | "pool" | "provider" | "state", label: string, values: string[], all_: string) => (
    <NativeSelect
      label={label} value={search[name] ?? ""} onChange={(event) => set({ [name]: event.currentTarget.value || undefined })}
      data={[{ value: "", label: all_ }, ...values.map((value) => ({ value, label: name === "state" ? stateWord(value) : value }))]}
    />
  );
  return (
    <>
      <PageTitle title="Lanes and providers" />
      <Group align="end" gap="sm" mb="md">
        <TextInput label="Search" placeholder="lane, pool, provider" leftSection={<IconSearch size={16} aria-hidden />} value={search.search ?? ""} onChange={(event) => set({ search: event.currentTarget.value || undefined })} />
        {select("gateway", "Gateway", choices.gateways, "all gateways")}
        {select("pool", "Pool", choices.pools, "all pools")}
        {select("provider", "Provider", choices.providers, "all providers")}
        {select("state", "State", ["open", "half_open", "closed", "unknown", "parked", "override"], "any state")}
      </Group>
      {version === 0 ? (
        phase === "lost" ? <Empty title="Nothing has been read yet">The server does not answer.</Empty> : <Loading rows={6} />
      ) : found.length === 0 ? (
        <Empty title={all.length === 0 ? "No lane is configured yet" : "No lane matches"}>
          {all.length === 0 ? "Write a gateway document and apply it: lanekeeper apply -f gateway.yaml" : <Button variant="default" size="compact-sm" onClick={() => void navigate({ to: "/lanes", search: {} })}>Show all lanes</Button>}
        </Empty>
      ) : (
        <div className={phase === "lost" ? "panel faded" : "panel"}>
          <Text size="sm" c="dimmed" role="status">{found.length === all.length ? counted(all.length, "cell") : `${found.length} of ${counted(all.length, "cell")}`}</Text>
          <Table className="cards" verticalSpacing="xs">
            <Table.Thead>
              <Table.Tr>{["State", "Lane", "Agents", "Cause", "For", "Next probe", "Trips"].map((title) => <Table.Th key={title}>{title}</Table.Th>)}</Table.Tr>
            </Table.Thead>
            <Table.Tbody>{found.slice(0, shown).map((cell) => <Row key={keyOf(cell)} cell={cell} open={open} />)}</Table.Tbody>
          </Table>
          {found.length > shown && <Button mt="sm" variant="default" onClick={() => setShown(shown + ROWS * 5)}>Show more ({found.length - shown})</Button>}
        </div>
      )}
      {search.cell !== undefined && <CellDrawer cell={cells.get(search.cell)} name={nameOfKey(search.cell, cells)} close={close} />}
    </>
  );
}

function choicesOf(cells: CellState[]) {
  const sorted = (values: (string | null | undefined)[]) => [...new Set(values.filter((value) => value != null && value !== ""))].sort() as string[];
  return {
    gateways: sorted(cells.map((cell) => cell.gateway)),
    pools: sorted(cells.map((cell) => cell.pool)),
    providers: sorted(cells.map((cell) => cell.provider)),
  };
}

interface Filter {
  gateway?: string;
  pool?: string;
  provider?: string;
  state?: string;
  search?: string;
}

function matches(cell: CellState, filter: Filter): boolean {
  const text = `${nameOf(cell)} ${cell.provider} ${cell.gateway}`.toLowerCase();
  return (
    (filter.gateway === undefined || cell.gateway === filter.gateway) &&
    (filter.pool === undefined || cell.pool === filter.pool) &&
    (filter.provider === undefined || cell.provider === filter.provider) &&
    (filter.state === undefined || isIn(cell, filter.state)) &&
    (filter.search === undefined || text.includes(filter.search.toLowerCase()))
  );
}

function isIn(cell: CellState, state: string): boolean {
  if (state === "parked") return cell.agents.parked > 0;
  if (state === "override") return cell.override != null;
  return cell.state === state;
}

function nameOfKey(key: string, cells: ReadonlyMap<string, CellState>): string {
  const cell = cells.get(key);
  return cell ? nameOf(cell) : "Unknown cell";
}

const Row = memo(function Row({ cell, open }: { cell: CellState; open: (key: string) => void }) {
  const { agents } = cell;
  return (
    <Table.Tr>
      <Table.Td><Chip kind={cell.state} /></Table.Td>
      <Table.Td>
        <div>
          <Button variant="transparent" p={0} h="auto" onClick={() => open(keyOf(cell))} styles={{ label: { whiteSpace: "normal", textAlign: "start", overflowWrap: "anywhere" } }}>{nameOf(cell)}</Button>
          <div className="small">{cell.gateway}{cell.lane != null && ` · ${cell.provider}`}</div>
          {cell.override && <Chip kind="override">{plain(cell.override.action)}</Chip>}
          {cell.unusable && cell.unusable.agents > 0 && <div className="small">cannot serve on {counted(cell.unusable.agents, "agent")}: {reasonsText(cell.unusable.reasons)}</div>}
        </div>
      </Table.Td>
      <Table.Td data-label="Agents" miw={130}>
        <div style={{ flex: 1 }}>
          <Text size="sm">{spread(cell)}</Text>
          <Meter legend={false} parts={[["open", agents.open], ["half_open", agents.half_open], ["closed", agents.closed], ["stale", agents.stale]]} />
        </div>
      </Table.Td>
      <Table.Td data-label="Cause">{causeText(cell.cause) || "–"}</Table.Td>
      <Table.Td data-label="For">{cell.opened_for_secs == null ? "–" : <Age at={cell.at - cell.opened_for_secs * 1000} suffix="" />}</Table.Td>
      <Table.Td data-label="Next probe">{cell.next_probe_in_secs == null ? "–" : <Left at={cell.at + cell.next_probe_in_secs * 1000} over="due" />}</Table.Td>
      <Table.Td data-label="Trips" className="number">{cell.trips.toLocaleString("en")}</Table.Td>
    </Table.Tr>
  );
});
