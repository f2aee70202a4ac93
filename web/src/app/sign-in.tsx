import { Button, Center, Paper, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type SyntheticEvent, useEffect, useRef, useState } from "react";
import { Failed } from "../parts/states";
import { takeLink } from "./link";
import { signIn } from "./session";

/** The secret of the link is read once, before the router may write the address. */
const fromLink = takeLink(window.location, window.history);

export function SignIn() {
  const [token, setToken] = useState("");
  const { mutate, isPending, error } = useMutation({ mutationFn: signIn });
  const tried = useRef(false);
  useEffect(() => {
    document.title = "Sign in · Lanekeeper";
    if (fromLink !== null && !tried.current) {
      tried.current = true;
      mutate(fromLink);
    }
  }, [mutate]);
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    mutate(token.trim());
  };
  return (
    <Center mih="100vh" p="md" component="main">
      <Paper withBorder p="xl" w="100%" maw={420}>
        <form onSubmit={submit}>
          <Stack>
            <Title order={1} fz={24}>Sign in to Lanekeeper</Title>
            <Text size="sm" c="dimmed">
              With an API token. The server prints the first one when it starts; later ones come from <code>lanekeeper token create</code>.
            </Text>
            <PasswordInput
              label="Token" value={token} onChange={(event) => setToken(event.currentTarget.value)} required data-autofocus
              autoComplete="off" spellCheck={false}
              visibilityToggleButtonProps={{ "aria-label": "Show or hide the token" }}
            />
            {error && <Failed title="Not signed in" error={error} />}
            <Button type="submit" loading={isPending} disabled={token.trim() === ""}>Sign in</Button>
          </Stack>
        </form>
      </Paper>
    </Center>
  );
}
