import { Alert, Button, Code, Group, Stack, Table, Text } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Fragment, useState } from "react";
import { api, answered, type Schemas } from "../api/client";
import { Chip } from "../parts/chip";
import { Failed, Loading, Panel } from "../parts/states";
import { Age } from "../parts/time";

const ROWS = 50;

export function Audit({ cursor }: { cursor: string | undefined }) {
  const navigate = useNavigate();
  const read = useQuery({
    queryKey: ["audit", cursor ?? ""],
    queryFn: () => answered(api.GET("/admin/v1/audit", { params: { query: { limit: ROWS, ...(cursor === undefined ? {} : { cursor }) } } })),
    placeholderData: keepPreviousData,
    refetchInterval: cursor === undefined ? 5000 : false,
  });
  return (
    <Stack gap="md">
      <Verify />
      <Panel title="Audit log, the latest first">
        {read.isPending ? <Loading rows={6} /> : read.isError ? <Failed error={read.error} retry={() => void read.refetch()} /> : (
          <>
            <Table className="cards">
              <Table.Thead><Table.Tr>{["When", "Who", "Action", "Resource", "Outcome", ""].map((title) => <Table.Th key={title}>{title}</Table.Th>)}</Table.Tr></Table.Thead>
              <Table.Tbody>{read.data.entries.map((entry) => <Entry key={entry.id} entry={entry} />)}</Table.Tbody>
            </Table>
            <Group mt="sm">
              {cursor !== undefined && <Button variant="default" onClick={() => void navigate({ to: "/access", search: { tab: "audit" } })}>The latest</Button>}
              {read.data.next_cursor != null && <Button variant="default" onClick={() => void navigate({ to: "/access", search: { tab: "audit", cursor: read.data.next_cursor ?? undefined } })}>Older ones</Button>}
            </Group>
          </>
        )}
      </Panel>
    </Stack>
  );
}

function Entry({ entry }: { entry: Schemas["AuditInfo"] }) {
  const [open, setOpen] = useState(false);
  const good = entry.outcome === "done";
  return (
    <Fragment>
      <Table.Tr>
        <Table.Td><Age at={Date.parse(entry.at)} /></Table.Td>
        <Table.Td data-label="Who">{entry.actor}</Table.Td>
        <Table.Td data-label="Action">{entry.action}</Table.Td>
        <Table.Td data-label="Resource" style={{ overflowWrap: "anywhere" }}>{entry.resource}</Table.Td>
        <Table.Td data-label="Outcome"><Chip kind={good ? "done" : "stopped"}>{entry.outcome}</Chip></Table.Td>
        <Table.Td><Button size="compact-sm" variant="default" aria-expanded={open} onClick={() => setOpen(!open)} aria-label={`${open ? "Less" : "More"} about entry ${entry.id}`}>{open ? "Less" : "More"}</Button></Table.Td>
      </Table.Tr>
      {open && (
        <Table.Tr>
          <Table.Td colSpan={6}>
            <Stack gap={6}>
              {entry.message && <Text size="sm" style={{ overflowWrap: "anywhere" }}>{entry.message}</Text>}
              {entry.before != null && <Value title="Before" value={entry.before} />}
              {entry.after != null && <Value title="After" value={entry.after} />}
              <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>Entry {entry.id}, hash {entry.hash}</Text>
            </Stack>
          </Table.Td>
        </Table.Tr>
      )}
    </Fragment>
  );
}

function Value({ title, value }: { title: string; value: unknown }) {
  return (
    <div>
      <Text size="sm" fw={600}>{title}</Text>
      <Code block style={{ maxHeight: 260, overflow: "auto", whiteSpace: "pre-wrap", overflowWrap: "anywhere" }} tabIndex={0}>{JSON.stringify(value, null, 2)}</Code>
    </div>
  );
}

/** Checks the chain of hashes from the first entry to the last. */
function Verify() {
  const verify = useMutation({ mutationFn: () => answered(api.GET("/admin/v1/audit/verify")) });
  return (
    <Group gap="sm" align="center">
      <Button variant="default" loading={verify.isPending} onClick={() => verify.mutate()}>Verify the chain</Button>
      {verify.data && (
        <Alert p="xs" variant="outline" color={verify.data.intact ? "teal" : "red"} role="status">
          {verify.data.intact ? `Intact: each of ${verify.data.entries.toLocaleString("en")} entries follows from the one before.` : `Broken at entry ${verify.data.broken_at ?? "?"}: ${verify.data.reason ?? ""}`}
        </Alert>
      )}
      {verify.error && <Failed error={verify.error} />}
    </Group>
  );
}
