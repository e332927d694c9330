import { Client, idempotencyKey, part, type CallOptions, type ClientOptions } from './client.js';

/** A client, or what makes one. */
export interface Connection {
  client?: Client | ClientOptions;
}

type Asked = Connection & CallOptions;

/** Who was asked, and what it told: what the class of an object is made of. */
export type Found<Info> = [client: Client, info: Info];

/** Makes an object of a kind, such as "sandboxes". Asked twice, the server makes it once. */
export async function makeObject<Info>(kind: string, options: Asked): Promise<Found<Info>> {
  const { client: connection, signal, ...spec } = options;
  const client = Client.from(connection);
  const headers = { 'idempotency-key': idempotencyKey() };
  return [client, await client.json<Info>('POST', `/v1/${kind}`, { json: spec, repeatable: true, headers, ...(signal ? { signal } : {}) })];
}

/** One that is there. */
export async function findObject<Info>(kind: string, id: string, options: Asked): Promise<Found<Info>> {
  const { client: connection, ...rest } = options;
  const client = Client.from(connection);
  return [client, await client.json<Info>('GET', `/v1/${kind}/${part(id)}`, rest)];
}

/** A page of them; what is left of the options is the query. */
export function listObjects<List>(kind: string, options: Asked): Promise<List> {
  const { client: connection, signal, ...query } = options;
  return Client.from(connection).json<List>('GET', `/v1/${kind}`, { query, ...(signal ? { signal } : {}) });
}
