import { Client, part, type CallOptions } from './client.js';
import { listObjects, type Connection } from './objects.js';

/** Documents that the server searches. */
export interface DocsSource {
  id: string;
  kind: 'url' | 'upload' | 'directory' | 'package';
  package: string | null;
  location: string;
  state: 'waiting' | 'ready' | 'failed';
  error: string | null;
  /** Of the server's configuration: it cannot be removed. */
  configured: boolean;
  pages: number;
  chunks: number;
  vectors: number;
  createdAt: string | null;
  checkedAt: string | null;
}

/** One of url, text and pages; an upload has a name, and replaces an earlier one of that name. */
export interface DocsSpec {
  /** What it documents, such as @acme/sdk or pypi:requests. */
  package?: string;
  /** The server fetches it in the background, and again from time to time. */
  url?: string;
  name?: string;
  text?: string;
  pages?: { path: string; text: string }[];
  /** Of the server; only for operators. */
  directory?: string;
}

export interface DocsQuery {
  package?: string;
  kind?: 'doc' | 'module';
  language?: string;
  /** Also its saved modules. */
  session?: string;
  volume?: string;
  limit?: number;
  offset?: number;
  /** Chunks of text before and after each result. */
  neighbours?: number;
}

export interface DocsResult {
  type: 'doc' | 'module';
  id: string;
  /** Path of headings, or of the module. */
  heading: string;
  content: string;
  /** The part of the content around the best sentences. */
  excerpt: string;
  package: string;
  url: string;
  page: number;
  /** 0 to 1. */
  score: number;
  description?: string | null;
  exports?: string[];
  before?: string;
  after?: string;
}

export interface DocsResults {
  results: DocsResult[];
  total: number;
  /** Whether meaning was compared as well, or only words. */
  mode: 'hybrid' | 'keyword';
  corrected: string | null;
}

/** Documentation that the server searches, for code and for models (the tool search_docs). */
export const docs = {
  async add(spec: DocsSpec, options: Connection & CallOptions = {}): Promise<DocsSource> {
    const { client, ...rest } = options;
    return Client.from(client).json<DocsSource>('POST', '/v1/docs', { json: spec, repeatable: true, ...rest });
  },

  async list(options: Connection & CallOptions = {}): Promise<DocsSource[]> {
    return (await listObjects<{ sources: DocsSource[] }>('docs', options)).sources;
  },

  async remove(id: string, options: Connection & CallOptions = {}): Promise<void> {
    const { client, ...rest } = options;
    await Client.from(client).request('DELETE', `/v1/docs/${part(id)}`, rest);
  },

  /** Sections of documents and saved modules, best first. */
  search(query: string, options: DocsQuery & Connection & CallOptions = {}): Promise<DocsResults> {
    return listObjects<DocsResults>('docs/search', { query, ...options } as Connection & CallOptions);
  },

  /** A whole page, by the number that results have. */
  page(page: number, options: Connection & CallOptions = {}): Promise<{ page: number; url: string; title: string; text: string }> {
    const { client, ...rest } = options;
    return Client.from(client).json('GET', `/v1/docs/pages/${page}`, rest);
  },
};
