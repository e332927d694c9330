import type { CallOptions, Client } from './client.js';
import { Commands } from './commands.js';
import { Contexts } from './contexts.js';
import { Files } from './files.js';
import { runCode, type RunOptions, type RunResult } from './run.js';
import type { CheckpointInfo, CheckpointList, DiffResult } from './types.js';
import { callTool, systemPrompt, type ToolAnswer, type ToolName, type ToolTarget } from './tools.js';

/** Where code runs, with files and commands: what a sandbox and a session have in common. */
export abstract class Place<Info extends { id: string; tier: string }> implements ToolTarget {
  readonly client: Client;
  readonly files: Files;
  readonly commands: Commands;
  readonly contexts: Contexts;
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
    this.contexts = new Contexts(client, this.base);
  }

  get id(): string {
    return this.info.id;
  }

  /**
   * Runs code; variables live from one run to the next. What it does wrong is part of the result. The sandbox of a
   * session is made or brought back when needed. Aborting `signal` interrupts the code; variables stay.
   */
  async runCode(code: string, options: RunOptions = {}): Promise<RunResult> {
    try {
      return await runCode(this.client, `${this.base}/run_code`, code, options);
    } catch (error) {
      // The server lets code go on whose client is gone.
      if (options.signal?.aborted && this.info.tier === 'jail') await this.interrupt(options).catch(() => undefined);
      throw error;
    }
  }

  /** Interrupts what runs, as Ctrl-C does: in the context that is named, else in those of the runtimes themselves. */
  async interrupt(which: { context?: string; runtime?: string; language?: string } = {}): Promise<void> {
    const { context, runtime, language } = which;
    const contexts = (await this.contexts.list()).filter((each) => each.state === 'busy' &&
      (context === undefined ? each.id === each.runtime && (runtime ?? each.runtime) === each.runtime : each.id === context));
    const spoken = contexts.filter((each) => each.language === language);
    await Promise.all((spoken.length > 0 ? spoken : contexts).map(({ id }) => this.contexts.interrupt(id)));
  }

  /** Checkpoints that were made by hand, and automatic ones (`checkpoints: 'turn'`). */
  checkpoints(options: CallOptions = {}): Promise<CheckpointList> {
    return this.client.json('GET', `${this.base}/checkpoints`, options);
  }

  /** Restores /workspace to the newest automatic checkpoint that differs, or to the given one. Programs and variables are not affected. */
  undo(options: CallOptions & { to?: string } = {}): Promise<CheckpointInfo> {
    const { signal, ...json } = options;
    return this.client.json('POST', `${this.base}/undo`, { json, ...(signal ? { signal } : {}) });
  }

  /** What changed in /workspace since an automatic checkpoint (the newest), or between two. */
  diff(options: CallOptions & { from?: string; to?: string } = {}): Promise<DiffResult> {
    const { signal, ...query } = options;
    return this.client.json('GET', `${this.base}/diff`, { query, ...(signal ? { signal } : {}) });
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
