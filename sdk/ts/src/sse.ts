/** One event of a stream. */
export interface StreamEvent<T = unknown> {
  event: string;
  /** Send it as Last-Event-ID to resume after this event. */
  id?: string;
  data: T;
}

/** Reads `text/event-stream`; ends when the stream does. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let text = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      text += done ? decoder.decode() : decoder.decode(value, { stream: true });
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const event = parseEvent(text.slice(0, end));
        text = text.slice(end + 2);
        if (event) yield event;
      }
      if (done) return;
    }
  } finally {
    // A caller that leaves the loop ends the request.
    await reader.cancel().catch(() => {});
  }
}

function parseEvent(block: string): StreamEvent | undefined {
  let event = 'message', id: string | undefined, data = '';
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    if (colon <= 0) continue; // a comment: the server's heartbeat
    const value = line.slice(colon + 1).replace(/^ /, '');
    const field = line.slice(0, colon);
    if (field === 'event') event = value;
    else if (field === 'id') id = value;
    else if (field === 'data') data += data ? `\n${value}` : value;
  }
  if (data === '') return undefined;
  return { event, data: JSON.parse(data) as unknown, ...(id === undefined ? {} : { id }) };
}
