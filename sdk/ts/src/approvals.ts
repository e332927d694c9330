import { idempotencyKey, part, type CallOptions, type Client } from './client.js';
import { SandglassError } from './errors.js';
import { readEvents } from './sse.js';
import type { Page } from './types.js';

export type ApprovalStatus = 'pending' | 'approved' | 'used' | 'rejected' | 'expired' | 'void';

/** Something that waits for a person's decision, or has waited. */
export interface Approval {
  id: string;
  /** `custom`: requested by a program; others are the server's. */
  kind: string;
  /** What it is about; the decision names it. */
  subject: string;
  /** Hash of exactly what is approved. */
  digest: string;
  title: string;
  detail: unknown;
  status: ApprovalStatus;
  sandbox: string | null;
  /** Name of the token, or its id. */
  requestedBy: string | null;
  requestedByToken: string | null;
  requestedAt: string;
  expiresAt: string;
  decidedBy: string | null;
  decidedByToken: string | null;
  decidedAt: string | null;
  /** From the person who decided. */
  note: string | null;
  /** Why it is void. */
  reason: string | null;
  endedAt: string | null;
}

export interface ApprovalSpec {
  subject: string;
  /** One line for the person who decides. */
  title: string;
  detail?: Record<string, unknown>;
  /** Default: of subject, title and detail. */
  digest?: string;
  /** Default: approvals.expire_hours of the server's configuration. */
  expiresSeconds?: number;
}

export interface ApprovalFilter extends Page {
  status?: ApprovalStatus;
  kind?: string;
  subject?: string;
}

/** What the person saw: an approval as list or get gave it. */
export type SeenApproval = Pick<Approval, 'id' | 'subject' | 'digest'>;

export interface ApprovalDecision {
  approved: boolean;
  /** For the requester. */
  note?: string;
}

const LONGEST_PAUSE_MS = 5000;

/** Requests for a person's decision; docs/APPROVALS.md. To decide needs a token with the scope `approve`. */
export class Approvals {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Asks for a decision; wait() gives it. The same request again gives the open approval. */
  request(spec: ApprovalSpec, options: CallOptions = {}): Promise<Approval> {
    const headers = { 'idempotency-key': idempotencyKey() };
    return this.#client.json('POST', '/v1/approvals', { json: { kind: 'custom', ...spec }, repeatable: true, headers, ...options });
  }

  list(filter: ApprovalFilter & CallOptions = {}): Promise<{ approvals: Approval[]; next: string | null }> {
    const { signal, ...query } = filter;
    return this.#client.json('GET', '/v1/approvals', { query, ...(signal ? { signal } : {}) });
  }

  /** By id, or by subject: the open one, else the newest. */
  get(id: string, options: CallOptions = {}): Promise<Approval> {
    return this.#client.json('GET', `/v1/approvals/${part(id)}`, options);
  }

  approve(seen: SeenApproval, options: { note?: string } & CallOptions = {}): Promise<Approval> {
    return this.#decide(seen, true, options);
  }

  reject(seen: SeenApproval, options: { note?: string } & CallOptions = {}): Promise<Approval> {
    return this.#decide(seen, false, options);
  }

  /** What was approved begins now; exactly one call succeeds. Of the kind `custom`. */
  use(seen: SeenApproval, options: CallOptions = {}): Promise<Approval> {
    return this.#client.json('POST', `/v1/approvals/${part(seen.id)}/use`, { json: { digest: seen.digest }, ...options });
  }

  /** It becomes void. Of the kind `custom`. */
  withdraw(id: string, options: CallOptions = {}): Promise<Approval> {
    return this.#client.json('DELETE', `/v1/approvals/${part(id)}`, options);
  }

  /** Until it is decided, expired or void, also across restarts of the server. */
  async wait(id: string, options: CallOptions = {}): Promise<Approval> {
    for await (const changed of this.#changes(options.signal)) {
      if (changed !== undefined && changed !== id) continue;
      const approval = await this.get(id, options);
      if (approval.status !== 'pending') return approval;
    }
    throw options.signal?.reason ?? new Error('aborted');
  }

  /**
   * Calls `decide` for each pending approval, those that wait already and those to come, and sends what it gives;
   * undefined leaves it open. Ends when the signal does, or with the first error of `decide`. An approval that another
   * person decided meanwhile is no error.
   */
  async onApproval(decide: (approval: Approval) => ApprovalDecision | undefined | Promise<ApprovalDecision | undefined>,
    options: { kind?: string } & CallOptions = {}): Promise<void> {
    const ending = new AbortController();
    const end = (): void => ending.abort();
    const handled = new Set<string>();
    const failures: unknown[] = [];
    options.signal?.addEventListener('abort', end, { once: true });
    if (options.signal?.aborted) end();
    const handle = async (approval: Approval): Promise<void> => {
      if (approval.status !== 'pending' || handled.has(approval.id) || (options.kind ?? approval.kind) !== approval.kind) return;
      handled.add(approval.id);
      const decision = await decide(approval);
      if (decision === undefined || ending.signal.aborted) return;
      await this.#decide(approval, decision.approved, decision.note === undefined ? {} : { note: decision.note }).catch((error: unknown) => {
        if (!(error instanceof SandglassError && error.code === 'conflict')) throw error;
      });
    };
    const fail = (error: unknown): void => { failures.push(error); end(); };
    try {
      for await (const changed of this.#changes(ending.signal)) {
        if (changed === undefined) for (const approval of await this.#pending(ending.signal)) handle(approval).catch(fail);
        else if (!handled.has(changed)) handle(await this.get(changed, { signal: ending.signal })).catch(fail);
      }
    } catch (error) {
      if (!ending.signal.aborted) failures.push(error);
    } finally {
      options.signal?.removeEventListener('abort', end);
      end();
    }
    if (failures.length > 0) throw failures[0];
  }

  async #pending(signal: AbortSignal): Promise<Approval[]> {
    const all: Approval[] = [];
    for (let after: string | undefined; ;) {
      const page = await this.list({ status: 'pending', signal, ...(after === undefined ? {} : { after }) });
      all.push(...page.approvals);
      if (!page.next) return all;
      after = page.next;
    }
  }

  #decide(seen: SeenApproval, approved: boolean, options: { note?: string } & CallOptions): Promise<Approval> {
    const { note, signal } = options;
    const json = { approved, subject: seen.subject, digest: seen.digest, ...(note === undefined ? {} : { note }) };
    return this.#client.json('POST', `/v1/approvals/${part(seen.id)}`, { json, ...(signal ? { signal } : {}) });
  }

  /** Ids of approvals that changed; undefined after each connect: look at all, because changes may have been missed. */
  async *#changes(signal: AbortSignal | undefined): AsyncGenerator<string | undefined> {
    for (let pauseMs = 100; !signal?.aborted; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      try {
        const response = await this.#client.request('GET', '/v1/events', { headers: { accept: 'text/event-stream' }, ...(signal ? { signal } : {}) });
        pauseMs = 100;
        yield undefined;
        if (response.body)
          for await (const { event, data } of readEvents(response.body as ReadableStream<Uint8Array>))
            if (event.startsWith('approval.')) yield (data as { id: string }).id;
      } catch (error) {
        if (signal?.aborted) return;
        const isLasting = error instanceof SandglassError && error.code !== 'unavailable' && error.code !== 'timeout' && error.code !== 'limit_reached';
        if (isLasting) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
