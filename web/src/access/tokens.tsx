import { Button, Group, NativeSelect, Stack, Table, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SyntheticEvent, useState } from "react";
import { api, answered, idempotencyKey, type Schemas } from "../api/client";
import { type Action, Confirm } from "../parts/confirm";
import { Failed, Loading, Panel } from "../parts/states";
import { Age, Left } from "../parts/time";
import { Secret } from "./secret";

const LIVES: { value: string; label: string }[] = [
  { value: "86400", label: "1 day" }, { value: String(30 * 86_400), label: "30 days" }, { value: String(90 * 86_400), label: "90 days" },
  { value: String(365 * 86_400), label: "a year" }, { value: "", label: "never" },
];

export function Tokens() {
  const [action, setAction] = useState<Action | null>(null);
  const client = useQueryClient();
  const read = useQuery({ queryKey: ["tokens"], queryFn: () => answered(api.GET("/admin/v1/tokens")), refetchInterval: 10_000 });
  const revoke = (token: Schemas["TokenInfo"]) =>
    setAction({
      title: `Revoke ${token.name}`, verb: "Revoke", danger: true,
      effect: "Whoever uses the token is refused within five seconds, and its browser sessions end. This cannot be undone.",
      run: async () => {
        await answered(api.DELETE("/admin/v1/tokens/{id}", { params: { path: { id: token.id }, header: { "Idempotency-Key": idempotencyKey() } } }));
        await client.invalidateQueries({ queryKey: ["tokens"] });
      },
    });
  return (
    <Stack gap="md">
      <NewToken />
      <Panel title="API tokens">
        {read.isPending ? <Loading /> : read.isError ? <Failed error={read.error} retry={() => void read.refetch()} /> : (
          <Table className="cards">
            <Table.Thead><Table.Tr>{["Name", "Role", "Made", "By", "Ends", ""].map((title) => <Table.Th key={title}>{title}</Table.Th>)}</Table.Tr></Table.Thead>
            <Table.Tbody>
              {read.data.tokens.map((token) => (
                <Table.Tr key={token.id}>
                  <Table.Td><span className="name">{token.name}</span></Table.Td>
                  <Table.Td data-label="Role">{token.role}</Table.Td>
                  <Table.Td data-label="Made"><Age at={Date.parse(token.created_at)} /></Table.Td>
                  <Table.Td data-label="By">{token.created_by}</Table.Td>
                  <Table.Td data-label="Ends">{token.expires_at == null ? "never" : <Left at={Date.parse(token.expires_at)} over="ended" />}</Table.Td>
                  <Table.Td><Button size="compact-sm" variant="default" onClick={() => revoke(token)} aria-label={`Revoke ${token.name}`}>Revoke</Button></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        )}
      </Panel>
      <Confirm action={action} close={() => setAction(null)} />
    </Stack>
  );
}

function NewToken() {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Schemas["TokenRole"]>("viewer");
  const [life, setLife] = useState(LIVES[1]?.value ?? "");
  const client = useQueryClient();
  const make = useMutation({
    mutationFn: () =>
      answered(api.POST("/admin/v1/tokens", {
        params: { header: { "Idempotency-Key": idempotencyKey() } },
        body: { name: name.trim(), role, ...(life === "" ? {} : { expires_in_secs: Number(life) }) },
      })),
    onSuccess: () => {
      setName("");
      void client.invalidateQueries({ queryKey: ["tokens"] });
    },
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    make.mutate();
  };
  return (
    <Panel title="New token">
      <form onSubmit={submit}>
        <Group align="end" gap="sm">
          <TextInput label="Name" required value={name} onChange={(event) => setName(event.currentTarget.value)} />
          <NativeSelect label="Role" value={role} onChange={(event) => setRole(event.currentTarget.value as Schemas["TokenRole"])} data={["viewer", "operator", "admin"]} />
          <NativeSelect label="Ends after" value={life} onChange={(event) => setLife(event.currentTarget.value)} data={LIVES} />
          <Button type="submit" loading={make.isPending} disabled={name.trim() === ""}>Make a token</Button>
        </Group>
      </form>
      {make.error && <Failed title="Not made" error={make.error} />}
      {make.data && <Stack mt="sm"><Secret name={make.data.name} secret={make.data.token} use={<>Use it as <code>LANEKEEPER_TOKEN</code>, as a bearer token, or to sign in here.</>} done={make.reset} /></Stack>}
    </Panel>
  );
}
