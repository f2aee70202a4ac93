// Who is signed in, and what that lets them do. The server checks each action by itself; the page
// only does not offer what it would refuse.

import { useQuery } from "@tanstack/react-query";
import { api, answered, Problem, type Schemas } from "../api/client";
import { queries } from "./queries";

export type Role = "viewer" | "operator" | "admin";
const RANK: Record<string, number> = { viewer: 0, operator: 1, admin: 2 };

export const SESSION = ["session"] as const;

/** The session; null when nobody is signed in. */
async function readSession(): Promise<Schemas["Session"] | null> {
  try {
    return await answered(api.GET("/session"));
  } catch (problem) {
    if (problem instanceof Problem && problem.status === 401) return null;
    throw problem;
  }
}

export const useSession = () => useQuery({ queryKey: SESSION, queryFn: readSession, staleTime: Infinity });

/** Whether the session's role reaches `role`, and what to say when it does not. */
export function useMay(role: Role): { may: boolean; why: string } {
  const has = useSession().data?.role ?? "viewer";
  const may = (RANK[has] ?? 0) >= (RANK[role] ?? 0);
  return { may, why: may ? "" : `This needs the role ${role}; you are signed in as ${has}.` };
}

/** Forgets everything that was read for the last session. */
export function forgetSession(): void {
  queries.setQueryData(SESSION, null);
  queries.removeQueries({ predicate: (query) => query.queryKey[0] !== SESSION[0] });
}

export async function signIn(token: string): Promise<void> {
  const session = await answered(api.POST("/session", { body: { token } }));
  queries.setQueryData(SESSION, session);
}

export async function signOut(): Promise<void> {
  try {
    await answered(api.DELETE("/session"));
  } finally {
    forgetSession();
  }
}
