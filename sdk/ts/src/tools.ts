import { part, type CallOptions, type Client } from './client.js';
import { toolTable } from './tool_table.js';

export type ToolName = keyof typeof toolTable;

/** A picture that came with an answer. */
export interface ToolImage {
  mimeType: string;
  /** Base64. */
  data: string;
}

/** The result of a tool, as text for a model; errors are results too. */
export interface ToolAnswer {
  isError: boolean;
  answer: Record<string, unknown>;
  images: ToolImage[];
}

/** Something whose tools can be called: a Sandbox, a Session, or a zone façade. */
export interface ToolTarget {
  /** The tools it has. Default: all of the table. */
  readonly toolNames?: readonly ToolName[];
  callTool(name: ToolName, args: Record<string, unknown>, options?: CallOptions): Promise<ToolAnswer>;
}

/** Calls a tool through one of the server's routes. */
export function callTool(client: Client, base: string, name: ToolName, args: Record<string, unknown>,
  options: CallOptions = {}): Promise<ToolAnswer> {
  return client.json<ToolAnswer>('POST', `${base}/tools/${part(name)}`, { json: args, ...options });
}

/** What a system prompt should say of the tools; "" when the server offers none. */
export async function systemPrompt(client: Client, options: CallOptions = {}): Promise<string> {
  return (await client.json<{ systemPrompt: string }>('GET', '/v1/tools', options)).systemPrompt;
}
