// A sign-in link carries its secret in the fragment, which no server and no log sees. It is taken
// out of the address before anything else happens, so that it is in no history either.

/** The secret of the link by which the page was opened; null without one. */
export function takeLink(location: Location, history: History): string | null {
  const fragment = new URLSearchParams(location.hash.replace(/^#/, ""));
  const query = new URLSearchParams(location.search);
  const token = fragment.get("token") ?? query.get("token");
  if (token === null) return null;
  query.delete("token");
  const rest = query.toString();
  history.replaceState(null, "", location.pathname + (rest ? `?${rest}` : ""));
  return token;
}
