import { Grid, Group, Stack, Table, Text } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type Document, useDocument } from "../api/config";
import { useDetail } from "../api/reads";
import { PageTitle } from "../app/shell";
import { asYaml } from "../editor/places";
import { PoolChip, poolLine } from "../fleet/pool-chip";
import { poolsOf } from "../fleet/pools";
import { type CellState, causeText, keyOf } from "../live/cell";
import { useLive } from "../live/stream";
import { Chip } from "../parts/chip";
import { Empty, Failed, Loading, Panel } from "../parts/states";
import { spread } from "../lanes/spread";

const route = getRouteApi("/pools/$gateway/$pool");

export function PoolPage() {
  const { gateway, pool } = route.useParams();
  const document = useDocument(gateway);
  const detail = useDetail(gateway);
  const health = detail.data && poolsOf(detail.data.view.cells).find((each) => each.pool === pool);
  return (
    <>
      <PageTitle title={pool}>
        <Group gap="sm">
          {health && <PoolChip pool={health} />}
          <Link to="/gateways/$gateway/edit" params={{ gateway }} search={{ pool }}>Edit</Link>
        </Group>
      </PageTitle>
      <Text size="sm" c="dimmed" mb="md">
        {gateway}{health && ` · ${poolLine(health)}`}
      </Text>
      {document.isPending ? <Loading rows={5} /> : document.isError ? <Failed error={document.error} retry={() => void document.refetch()} /> : <Body document={document.data.data} gateway={gateway} pool={pool} />}
    </>
  );
}

function Body({ document, gateway, pool }: { document: Document; gateway: string; pool: string }) {
  const { cells } = useLive();
  const written = document.pools?.[pool];
  if (!written) return <Empty title="The document has no such pool"><Link to="/pools" search={{ gateway }}>All pools of {gateway}</Link></Empty>;
  const total = written.members.reduce((sum, member) => sum + weightOf(member.weight), 0);
  const breaker = { ...document.defaults?.breaker, ...written.breaker };
  const rest = Object.fromEntries(Object.entries(written).filter(([field]) => field !== "members" && field !== "breaker"));
  return (
    <Stack gap="md">
      <Panel title="Members">
        <Table className="cards">
          <Table.Thead><Table.Tr>{["Lane", "Provider", "Weight", "Share by weight", "State", "Agents", "Cause"].map((title) => <Table.Th key={title}>{title}</Table.Th>)}</Table.Tr></Table.Thead>
          <Table.Tbody>
            {written.members.map((member) => {
              const mine = [...cells.values()].filter((cell) => cell.gateway === gateway && cell.pool === pool && cell.lane === member.target);
              const weight = weightOf(member.weight);
              return (
                <Table.Tr key={member.target}>
                  <Table.Td>{mine[0] ? <Link to="/lanes" search={{ gateway, pool, cell: keyOf(mine[0]) }} className="name">{member.target}</Link> : <span className="name">{member.target}</span>}</Table.Td>
                  <Table.Td data-label="Provider">{document.models?.[member.target]?.provider ?? "–"}</Table.Td>
                  <Table.Td data-label="Weight" className="number">{weight}</Table.Td>
                  <Table.Td data-label="Share by weight" className="number">{total > 0 ? `${Math.round((100 * weight) / total)} %` : "none"}</Table.Td>
                  <Table.Td data-label="State">{mine.map((cell) => <Chip key={keyOf(cell)} kind={cell.state} />)}{mine.length === 0 && <Chip kind="unknown" />}</Table.Td>
                  <Table.Td data-label="Agents">{mine.map((cell: CellState) => spread(cell)).join("; ") || "–"}</Table.Td>
                  <Table.Td data-label="Cause">{mine.map((cell) => causeText(cell.cause)).filter(Boolean).join("; ") || "–"}</Table.Td>
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
        <Text size="sm" c="dimmed" mt="xs">The share by weight is what each member gets while all of them take calls.</Text>
      </Panel>
      <Grid gap="md">
        <Grid.Col span={{ base: 12, md: 6 }}><Panel title="Breaker policy as written"><Written value={breaker} none="The defaults of this version, see docs/presets.md." /></Panel></Grid.Col>
        <Grid.Col span={{ base: 12, md: 6 }}><Panel title="Everything else"><Written value={rest} none="Defaults." /></Panel></Grid.Col>
      </Grid>
    </Stack>
  );
}

/** A member without a weight has 1. */
const weightOf = (weight: number | undefined): number => weight ?? 1;

function Written({ value, none }: { value: object; none: string }) {
  if (Object.keys(value).length === 0) return <Text size="sm">{none}</Text>;
  return <pre className="written" tabIndex={0}>{asYaml(value)}</pre>;
}
