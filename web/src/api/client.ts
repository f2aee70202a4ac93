// The one place that talks to the API: typed by openapi.json, errors as values of one class.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** Longest wait for an answer, ms. A frozen server closes no connection. */
const ANSWER_MS = 15_000;

/** An answer that is not what was asked for, in the server's own words. */
export class Problem extends Error {
  constructor(
    /** The HTTP status; 0 when no answer came. */
    readonly status: number,
    /** The stable code for programs. */
    readonly code: string,
    detail: string,
    readonly errors: Schemas["Fault"][] = [],
    /** Names the request in the server's log. */
    readonly requestId = "",
  ) {
    super(detail);
    this.name = "Problem";
  }
}

const silent = (reason: unknown): Problem =>
  new Problem(
    0,
    "no_answer",
    reason instanceof DOMException && reason.name === "TimeoutError"
      ? `The server has not answered for ${ANSWER_MS / 1000} s.`
      : "The server does not answer.",
  );

const lostListeners = new Set<() => void>();
/** Calls back when the server says that nobody is signed in. */
export const onSessionLost = (listener: () => void): (() => void) => {
  lostListeners.add(listener);
  return () => lostListeners.delete(listener);
};

async function send(request: Request): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(request, { signal: AbortSignal.any([request.signal, AbortSignal.timeout(ANSWER_MS)]) });
  } catch (reason) {
    if (request.signal.aborted) throw reason;
    throw silent(reason);
  }
  if (response.status === 401 && !request.url.endsWith("/session")) for (const listener of lostListeners) listener();
  return response;
}

export const api = createClient<paths>({ baseUrl: window.location.origin, fetch: send });

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** What an answer holds; throws a {@link Problem} when it is none. */
export async function answered<T>(call: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await call;
  if (response.ok) return data as T;
  throw problemOf(error, response.status);
}

/** As {@link answered}, with the ETag that a write must name. */
export async function tagged<T>(call: Promise<Answer<T>>): Promise<{ data: T; etag: string }> {
  const answer = await call;
  const data = await answered(Promise.resolve(answer));
  return { data, etag: answer.response.headers.get("etag") ?? "" };
}

function problemOf(body: unknown, status: number): Problem {
  if (typeof body === "object" && body !== null && "detail" in body) {
    const problem = body as Partial<Schemas["ProblemDocument"]>;
    return new Problem(status, problem.code ?? "", problem.detail ?? "", problem.errors ?? [], problem.request_id ?? "");
  }
  return new Problem(status, "", `The server answered ${status}.`);
}

/** A new key under which a write is done once, however often it is sent. */
export function idempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
