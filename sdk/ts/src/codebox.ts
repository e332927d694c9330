import { errorOf } from './errors.js';
import type { FileContent } from './files.js';
import type { FileInfo, SandboxSpec, TimeLimit } from './types.js';
import type { Connection } from './objects.js';
import { Sandbox } from './sandbox.js';

/** What code gave, in the one form that matters most: an error, a picture, or text. */
export interface CodeBoxOutput {
  type: 'text' | 'image/png' | 'error';
  /** Text, or a picture as base64. */
  content: string;
}

export type CodeBoxStatus = 'new' | 'running' | 'stopped';

/** Python for a chat: start, run, files, stop. A thin class over Sandbox. */
export class CodeBox {
  readonly #options: SandboxSpec & Connection;
  #sandbox: Sandbox | undefined;
  #status: CodeBoxStatus = 'new';

  constructor(options: SandboxSpec & Connection = {}) {
    this.#options = options;
  }

  /** One that was started before, by its id. */
  static async fromId(id: string, options: Connection = {}): Promise<CodeBox> {
    const box = new CodeBox(options);
    box.#sandbox = await (await Sandbox.get(id, options)).connect();
    box.#status = 'running';
    return box;
  }

  /** Its sandbox's id, once started. */
  get id(): string | undefined {
    return this.#sandbox?.id;
  }

  /** Starts it; one that runs already is left as it is. */
  async start(): Promise<CodeBoxStatus> {
    if (this.#status !== 'running') {
      this.#sandbox = await Sandbox.create({ tier: 'jail', ...this.#options });
      this.#status = 'running';
    }
    return this.#status;
  }

  async status(): Promise<CodeBoxStatus> {
    if (this.#status !== 'running') return this.#status;
    const { state } = (await this.#box.refresh()).info;
    if (state === 'stopped' || state === 'stopping' || state === 'failed') this.#status = 'stopped';
    return this.#status;
  }

  /** Runs Python; variables stay for the next run. */
  async run(code: string, options: { timeoutMs?: TimeLimit } = {}): Promise<CodeBoxOutput> {
    const { error, results, stdout, stderr, text } = await this.#box.runCode(code, { language: 'python', ...options });
    if (error) return { type: 'error', content: error.traceback || error.message || stderr };
    const png = results.map(({ data }) => data['image/png']).find((data) => data !== undefined);
    return png === undefined ? { type: 'text', content: stdout || text || '' } : { type: 'image/png', content: png };
  }

  /** Puts a file into the working directory. */
  upload(name: string, content: FileContent): Promise<FileInfo> {
    return this.#box.files.write(pathOf(name), content);
  }

  async download(name: string): Promise<Uint8Array> {
    return this.#box.files.readBinary(pathOf(name));
  }

  /** Names of the files in the working directory. */
  async list(): Promise<string[]> {
    return (await this.#box.files.list('/workspace')).map(({ path }) => path);
  }

  /** Installs a Python package; needs a network that reaches the index ("allow pypi"). */
  async install(name: string): Promise<string> {
    if (!/^[A-Za-z0-9][\w.[\]=<>!~,-]*$/.test(name)) throw errorOf('invalid', `'${name}' is not a package's name`);
    const { error } = await this.#box.runCode('pass', { language: 'python', requirements: [name] });
    if (error) throw errorOf('unavailable', `install '${name}': ${error.message}`);
    return name;
  }

  async stop(): Promise<CodeBoxStatus> {
    if (this.#sandbox && this.#status === 'running') await this.#sandbox.delete();
    return (this.#status = 'stopped');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  get #box(): Sandbox {
    if (!this.#sandbox || this.#status !== 'running') throw errorOf('conflict', 'the box does not run: call start() first');
    return this.#sandbox;
  }
}

function pathOf(name: string): string {
  return name.startsWith('/') ? name : `/workspace/${name}`;
}
