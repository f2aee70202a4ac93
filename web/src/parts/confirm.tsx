// Every action is confirmed with what it will do, keeps a message where there is one, and says what the
// server said.

import { Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type ReactNode, type SyntheticEvent, useState } from "react";
import { Failed } from "./states";

export interface Action {
  title: string;
  /** What it will do. */
  effect: ReactNode;
  /** The button's text. */
  verb: string;
  danger?: boolean;
  /** Asks for a message that is kept in the audit log. */
  message?: boolean;
  run: (message: string) => Promise<unknown>;
}

const MESSAGE_MAX = 500;

export function Confirm({ action, close }: { action: Action | null; close: () => void }) {
  return (
    <Modal opened={action !== null} onClose={close} title={<Text fw={700} fz="lg">{action?.title}</Text>} closeButtonProps={{ "aria-label": "Close" }} centered>
      {action && <Body action={action} close={close} />}
    </Modal>
  );
}

function Body({ action, close }: { action: Action; close: () => void }) {
  const [message, setMessage] = useState("");
  const run = useMutation({ mutationFn: () => action.run(message.trim()), onSuccess: close });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    run.mutate();
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <Text size="sm" component="div" style={{ overflowWrap: "anywhere" }}>{action.effect}</Text>
        {action.message && <TextInput label="Message" description="Kept in the audit log" maxLength={MESSAGE_MAX} value={message} onChange={(event) => setMessage(event.currentTarget.value)} data-autofocus />}
        {run.error && <Failed title="Not done" error={run.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>Cancel</Button>
          <Button type="submit" color={action.danger ? "red" : "teal"} loading={run.isPending}>{action.verb}</Button>
        </Group>
      </Stack>
    </form>
  );
}
