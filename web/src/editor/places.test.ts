import { describe, expect, it } from "vitest";
import { asYaml, parse, placeOf } from "./places";

const text = "members:\n  - target: a\n    weight: 3\n  - target: b\nbreaker:\n  trip: {threshold: 0.5}\n";
const at = (pointer: string) => {
  const { from, to } = placeOf(parse(text), pointer);
  return text.slice(from, to);
};

describe("the place of a pointer in a text", () => {
  it("is the value of a field, or the field's name when the value is long", () => {
    expect(at("/members/0/weight")).toBe("3");
    expect(at("/breaker/trip/threshold")).toBe("0.5");
    expect(at("/breaker")).toBe("breaker");
  });

  it("is what is nearest when the field is not there", () => {
    expect(at("/members/1/weight")).toBe("target: b");
    expect(at("/breaker/none/none")).toBe("breaker");
    expect(at("/none")).toBe("members:");
  });

  it("reads names with a slash", () => {
    expect(placeOf(parse("'a/b': 1\n"), "/a~1b")).toEqual({ from: 7, to: 8 });
  });
});

describe("a text", () => {
  it("with a mistake has its place and no value", () => {
    const { value, mistakes } = parse("a: 1\na: 2\n");
    expect(value).toBeUndefined();
    expect(mistakes[0]?.message).toContain("unique");
  });

  it("that unfolds without end is refused", () => {
    const bomb = ["a0: &a0 [x, x]", ...Array.from({ length: 20 }, (_, n) => `a${n + 1}: &a${n + 1} [*a${n}, *a${n}, *a${n}, *a${n}]`)].join("\n");
    expect(parse(bomb).value).toBeUndefined();
  });

  it("survives the way to YAML and back", () => {
    const value = { pools: { "on": { members: [{ target: "a: b", weight: 0 }] } }, none: null };
    expect(parse(asYaml(value)).value).toEqual(value);
  });
});
