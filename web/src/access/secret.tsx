import { Alert, Button, Code, CopyButton, Group, Text } from "@mantine/core";

/** A secret that is given once: it is in no list, no address and no storage. */
export function Secret({ name, secret, use, done }: { name: string; secret: string; use: React.ReactNode; done: () => void }) {
  return (
    <Alert color="teal" variant="outline" title={`${name}: copy it now, it is not shown again`} role="status">
      <Code block style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }} data-testid="secret">{secret}</Code>
      <Text size="sm" mt="xs" component="div">{use}</Text>
      <Group mt="xs" gap="xs">
        <CopyButton value={secret}>{({ copied, copy }) => <Button size="compact-sm" variant="default" onClick={copy}>{copied ? "Copied" : "Copy"}</Button>}</CopyButton>
        <Button size="compact-sm" variant="default" onClick={done}>I have it</Button>
      </Group>
    </Alert>
  );
}
