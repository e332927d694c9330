/**
 * Tools for the AI SDK (`ai` 6 and 7), made from the server's own table.
 *
 * `createSandboxTools(sandbox)` binds them to a sandbox or a session. `sandboxTools` are static:
 * the sandbox comes from the call's context, so that nothing has to be made per request.
 */
import * as ai from 'ai';
import type { FlexibleSchema, Tool } from 'ai';
import { SandglassError } from './errors.js';
import { toolTable } from './tool_table.js';
import type { ToolAnswer, ToolImage, ToolName, ToolTarget } from './tools.js';

export type { ToolName, ToolTarget } from './tools.js';

/** No sandbox in the context of a call. Trying again does not help: pass one. */
export class ErrSandboxContext extends SandglassError {
  override name = 'ErrSandboxContext';

  constructor(detail: string) {
    super('invalid', `sandbox missing from tool context: ${detail}; pass experimental_context: { sandbox } (ai 6) ` +
      'or toolsContext: sandboxContext(sandbox) (ai 7)');
  }
}

/** What the static tools expect in the context of a call. */
export interface SandboxContext {
  sandbox: ToolTarget;
}

/** What a tool answers: its own members, and pictures where there are some. */
export interface ToolOutput {
  success?: boolean;
  error?: { code?: string; message?: string; hint?: string };
  images?: ToolImage[];
  [member: string]: unknown;
}

type Primitive = { string: string; integer: number; number: number; boolean: boolean };
type Value<S> = S extends { enum: readonly (infer E)[] } ? E
  : S extends { type: keyof Primitive } ? Primitive[S['type']] : unknown;
type Input<S> = S extends { properties: infer P; required: readonly (infer R)[] }
  ? { -readonly [K in keyof P as K extends R ? K : never]: Value<P[K]> } & { -readonly [K in keyof P as K extends R ? never : K]?: Value<P[K]> }
  : S extends { properties: infer P } ? { -readonly [K in keyof P]?: Value<P[K]> } : Record<string, unknown>;

/** The arguments of a tool, as its row says. */
export type ToolInput<N extends ToolName> = Input<(typeof toolTable)[N]['inputSchema']>;

export type SandboxTools = { [N in ToolName]: Tool<ToolInput<N>, ToolOutput> };
/** A tool whose sandbox comes from the context. Spelled out: `Tool` takes a context's type only in ai 7. */
export interface ContextTool<INPUT> {
  description: string;
  inputSchema: FlexibleSchema<INPUT>;
  contextSchema: FlexibleSchema<SandboxContext>;
  execute: (input: INPUT, options: any) => Promise<ToolOutput>;
  toModelOutput: (result: any) => any;
}
export type ContextSandboxTools = { [N in ToolName]: ContextTool<ToolInput<N>> };

/** What both majors of the AI SDK give to a tool that is called. */
interface CallContext {
  abortSignal?: AbortSignal;
  context?: unknown;
  experimental_context?: unknown;
}

function outputOf({ answer, images }: ToolAnswer): ToolOutput {
  return images.length > 0 ? { ...answer, images } : answer;
}

/** Each major version has its own name for an image in a result, and rejects the other's. */
const isSeven = 'isStepCount' in ai;
function pictureOf({ data, mimeType: mediaType }: ToolImage): unknown {
  return isSeven ? { type: 'file', mediaType, data: { type: 'data', data } } : { type: 'image-data', data, mediaType };
}

/** Pictures go to the model as pictures, the rest as JSON. */
function modelOutputOf(output: ToolOutput) {
  const { images, ...rest } = output;
  if (!Array.isArray(images)) return { type: 'json' as const, value: rest as never };
  return {
    type: 'content' as const,
    value: [{ type: 'text', text: JSON.stringify(rest) }, ...images.map(pictureOf)] as never,
  };
}

function makeTool(name: ToolName, sandboxOf: (call: CallContext) => ToolTarget, more: object): unknown {
  const row = toolTable[name];
  const made = {
    description: row.description,
    inputSchema: ai.jsonSchema<Record<string, unknown>>(row.inputSchema as never),
    execute: async (args: Record<string, unknown>, call: CallContext): Promise<ToolOutput> => {
      const signal = call.abortSignal;
      return outputOf(await sandboxOf(call).callTool(name, args, signal ? { signal } : {}));
    },
    toModelOutput: (result: { output: ToolOutput }) => modelOutputOf(result.output),
    ...more,
  };
  return ai.tool(made as never);
}

function makeTools(names: readonly ToolName[], sandboxOf: (call: CallContext) => ToolTarget, more: object = {}): Record<string, unknown> {
  return Object.fromEntries(names.map((name) => [name, makeTool(name, sandboxOf, more)]));
}

// search_docs is for those who name it: whether there is something to search, the server knows.
const allNames = Object.keys(toolTable) as ToolName[];
const usualNames = allNames.filter((name) => name !== 'search_docs');

export interface SandboxToolsOptions {
  /** Only these tools. */
  only?: readonly ToolName[];
}

/** Tools that work in this sandbox, session or zone façade. Only what it has is offered. */
export function createSandboxTools(sandbox: ToolTarget, options: SandboxToolsOptions = {}): SandboxTools {
  const offered = (sandbox.toolNames ?? (options.only ? allNames : usualNames)).filter((name) => options.only?.includes(name) ?? true);
  return makeTools(offered, () => sandbox) as SandboxTools;
}

/** The sandbox of a call's context; ErrSandboxContext when it has none. */
export function extractSandbox(context: unknown): ToolTarget {
  if (typeof context !== 'object' || context === null) throw new ErrSandboxContext(`the context must be an object, got ${context === null ? 'null' : typeof context}`);
  const { sandbox } = context as { sandbox?: unknown };
  if (typeof sandbox !== 'object' || sandbox === null) throw new ErrSandboxContext('it has no member "sandbox"');
  if (typeof (sandbox as { callTool?: unknown }).callTool !== 'function')
    throw new ErrSandboxContext('its member "sandbox" is neither a Sandbox nor a Session');
  return sandbox as ToolTarget;
}

/** The context is judged when a tool runs, so that every way without one ends in ErrSandboxContext. */
const contextSchema = ai.jsonSchema<SandboxContext>({ type: 'object' },
  { validate: (value) => ({ success: true, value: value as SandboxContext }) });

/** The static form: one set of tools for all calls. */
export const sandboxTools: ContextSandboxTools = makeTools(usualNames,
  (call) => extractSandbox(call.context ?? call.experimental_context), { contextSchema }) as ContextSandboxTools;

/** `toolsContext` of the AI SDK 7 for `sandboxTools`. */
export function sandboxContext(sandbox: ToolTarget): Record<ToolName, SandboxContext> {
  return Object.fromEntries(allNames.map((name) => [name, { sandbox }])) as Record<ToolName, SandboxContext>;
}
