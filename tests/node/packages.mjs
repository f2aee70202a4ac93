// Plays one scripted conversation with a vendor's package: asks, runs the tool that is called, asks again.
// Usage: node packages.mjs PACKAGE BASE_URL; prints {"called": [...], "text": "..."} as JSON.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import process from "node:process";

const [name, baseURL] = process.argv.slice(2);
const MODEL = "pool";
const QUESTION = "What is the word?";
const PARAMETERS = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };
const called = [];

// The packages are installed apart from this file.
const installed = createRequire(`${process.env.NODE_CLIENTS}/package.json`);
const load = async (module) => (await import(pathToFileURL(installed.resolve(module)).href)).default;

/** The one tool: says the word that lies at a place. */
function lookUp(text) {
  const { place } = JSON.parse(text);
  called.push(place);
  return `The word at ${place} is heron.`;
}

/** Chat completions, streamed through the package's own collector of pieces. */
async function openaiStream(client) {
  const tools = [{ type: "function", function: { name: "look_up", parameters: PARAMETERS } }];
  const messages = [{ role: "user", content: QUESTION }];
  for (;;) {
    const message = await client.chat.completions.stream({ model: MODEL, messages, tools }).finalMessage();
    messages.push(message);
    if (!message.tool_calls?.length) return message.content;
    for (const call of message.tool_calls) {
      messages.push({ role: "tool", tool_call_id: call.id, content: lookUp(call.function.arguments) });
    }
  }
}

async function openaiWhole(client) {
  const tools = [{ type: "function", function: { name: "look_up", parameters: PARAMETERS } }];
  const messages = [{ role: "user", content: QUESTION }];
  for (;;) {
    const answer = await client.chat.completions.create({ model: MODEL, messages, tools });
    const { message } = answer.choices[0];
    messages.push(message);
    if (!message.tool_calls?.length) return message.content;
    for (const call of message.tool_calls) {
      messages.push({ role: "tool", tool_call_id: call.id, content: lookUp(call.function.arguments) });
    }
  }
}

async function responses(ask) {
  const tools = [{ type: "function", name: "look_up", parameters: PARAMETERS, strict: false }];
  const input = [{ role: "user", content: QUESTION }];
  for (;;) {
    const answer = await ask({ model: MODEL, input, tools, store: false });
    const calls = answer.output.filter((item) => item.type === "function_call");
    if (!calls.length) return answer.output_text;
    for (const { id, type, call_id, name: tool, arguments: text } of calls) {
      input.push({ id, type, call_id, name: tool, arguments: text });
      input.push({ type: "function_call_output", call_id, output: lookUp(text) });
    }
  }
}

async function anthropic(ask) {
  const tools = [{ name: "look_up", input_schema: PARAMETERS }];
  const messages = [{ role: "user", content: QUESTION }];
  for (;;) {
    const message = await ask({ model: MODEL, max_tokens: 200, messages, tools });
    messages.push({ role: "assistant", content: message.content });
    const calls = message.content.filter((block) => block.type === "tool_use");
    if (!calls.length) return message.content.map((block) => block.text ?? "").join("");
    messages.push({
      role: "user",
      content: calls.map(({ id, input }) => ({
        type: "tool_result", tool_use_id: id, content: lookUp(JSON.stringify(input)),
      })),
    });
  }
}

// A gateway is to make up for failures; the packages' own retries would hide that it does not.
const options = { apiKey: "caller", maxRetries: 0, timeout: 60_000 };
const openaiClient = async () => new (await load("openai"))({ ...options, baseURL: `${baseURL}/v1` });
const anthropicClient = async () => new (await load("@anthropic-ai/sdk"))({ ...options, baseURL });

const conversations = {
  "openai-chat": async () => openaiWhole(await openaiClient()),
  "openai-chat-stream": async () => openaiStream(await openaiClient()),
  "openai-responses": async () => {
    const client = await openaiClient();
    return responses((request) => client.responses.create(request));
  },
  "openai-responses-stream": async () => {
    const client = await openaiClient();
    return responses((request) => client.responses.stream(request).finalResponse());
  },
  "anthropic": async () => {
    const client = await anthropicClient();
    return anthropic((request) => client.messages.create(request));
  },
  "anthropic-stream": async () => {
    const client = await anthropicClient();
    return anthropic((request) => client.messages.stream(request).finalMessage());
  },
};

const text = await conversations[name]();
console.log(JSON.stringify({ called, text }));
