import type { CallOptions, Client } from './client.js';
import { Commands } from './commands.js';
import { Files } from './files.js';
import { runCode, type RunOptions, type RunResult } from './run.js';
import { callTool, systemPrompt, type ToolAnswer, type ToolName, type ToolTarget } from './tools.js';

/** Where code runs, with files and commands: what a sandbox and a session have in common. */
export abstract class Place<Info extends { id: string; tier: string }> implements ToolTarget {
  readonly client: Client;
  readonly files: Files;
  readonly commands: Commands;
  /** As it was when last asked for. */
  info: Info;
  /** Where it is found, like "/v1/sandboxes/ID". */
  protected readonly base: string;

  constructor(client: Client, info: Info, kind: string) {
    this.client = client;
    this.info = info;
    this.base = `/v1/${kind}/${info.id}`;
    this.files = new Files(client, this.base);
    this.commands = new Commands(client, this.base);
  }

  get id(): string {
    return this.info.id;
  }

  /**
   * Runs code; variables live from one run to the next. What it does wrong is part of the result. The sandbox of a
   * session is made or brought back when needed.
   */
  runCode(code: string, options: RunOptions = {}): Promise<RunResult> {
    return runCode(this.client, `${this.base}/run_code`, code, options, this.info.tier !== 'jail');
  }

  /** Asks the server what it is now. */
  refresh(options: CallOptions = {}): Promise<this> {
    return this.become('GET', '', options);
  }

  /** Ends it and forgets it; with a session go its sandbox, its volume and its modules. */
  async delete(options: CallOptions = {}): Promise<void> {
    await this.client.request('DELETE', this.base, options);
  }

  callTool(name: ToolName, args: Record<string, unknown>, options: CallOptions = {}): Promise<ToolAnswer> {
    return callTool(this.client, this.base, name, args, options);
  }

  systemPrompt(options: CallOptions = {}): Promise<string> {
    return systemPrompt(this.client, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.delete();
  }

  /** A verb whose answer is what it is from now on. */
  protected async become(method: string, verb: string, options: CallOptions): Promise<this> {
    this.info = await this.client.json<Info>(method, this.base + verb, options);
    return this;
  }
}
