/** A count with its noun. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** A list as it is read out, cut after `max` names. */
export function listed(names: readonly string[], max = 3): string {
  if (names.length > max) return `${names.slice(0, max).join(", ")} and ${names.length - max} more`;
  if (names.length < 2) return names.join("");
  return `${names.slice(0, -1).join(", ")} and ${names[names.length - 1] ?? ""}`;
}

/** A word of the API as people write it. */
export const plain = (word: string): string => word.replaceAll("_", " ");
