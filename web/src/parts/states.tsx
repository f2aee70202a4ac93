// What stands in a place whose contents are not there: still loading, failed, or none.

import { Alert, Button, Code, Skeleton, Stack, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Problem } from "../api/client";

export function Loading({ rows = 3, label = "Loading" }: { rows?: number; label?: string }) {
  return (
    <Stack gap="xs" role="status" aria-label={label}>
      {Array.from({ length: rows }, (_, row) => <Skeleton key={row} height={18} width={`${90 - row * 12}%`} />)}
    </Stack>
  );
}

/** An error with what the server said, where it is about, and a way to try again. */
export function Failed({ error, retry, title = "This could not be read" }: { error: unknown; retry?: () => void; title?: string }) {
  const problem = error instanceof Problem ? error : null;
  return (
    <Alert color="red" title={title} role="alert" variant="outline">
      <Text size="sm">{error instanceof Error ? error.message : "Unknown error"}</Text>
      {problem && problem.errors.length > 0 && (
        <ul>
          {problem.errors.map((fault) => (
            <li key={`${fault.pointer ?? fault.parameter ?? ""} ${fault.code} ${fault.message}`}>
              <Code>{fault.pointer ?? fault.parameter ?? "/"}</Code> {fault.message}
            </li>
          ))}
        </ul>
      )}
      {problem?.requestId && <Text size="xs" c="dimmed">Request {problem.requestId}</Text>}
      {retry && <Button mt="xs" size="compact-sm" variant="default" onClick={retry}>Try again</Button>}
    </Alert>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Stack gap={4} align="center" py="lg" ta="center">
      <Text fw={600}>{title}</Text>
      {children && <Text size="sm" c="dimmed" component="div">{children}</Text>}
    </Stack>
  );
}

/** A part of a page with its heading. */
export function Panel({ title, aside, children, level = 2 }: { title: string; aside?: ReactNode; children: ReactNode; level?: 2 | 3 }) {
  return (
    <section className="panel" aria-label={title}>
      <div style={{ display: "flex", justifyContent: "space-between", gap: 12, flexWrap: "wrap", marginBottom: 12 }}>
        <Title order={level} fz="md">{title}</Title>
        {aside}
      </div>
      {children}
    </section>
  );
}

export function NotFound() {
  return (
    <Empty title="There is no page at this address">
      <Link to="/">To the fleet</Link>
    </Empty>
  );
}
