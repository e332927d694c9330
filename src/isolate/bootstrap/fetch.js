// Headers, Request, Response and fetch, over the bridge `fetch`: only to hosts that the policy names.
(function (host, bridge, load) {
    'use strict';
    const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
    const nameOf = (name) => {
        name = String(name);
        if (!token.test(name)) throw new TypeError(`'${name}' is not a valid header name`);
        return name.toLowerCase();
    };
    const valueOf = (value) => {
        value = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
        if (/[\0\r\n]/.test(value) || /[^\0-\xff]/.test(value)) throw new TypeError('a header value holds a character that it may not');
        return value;
    };
    class Headers {
        #map = new Map();
        constructor(init) {
            if (init === undefined || init === null) return;
            if (typeof init !== 'object') throw new TypeError('Headers needs an object, pairs or Headers');
            const pairs = typeof init[Symbol.iterator] === 'function' ? [...init] : Object.entries(init);
            for (const pair of pairs) {
                if (pair.length !== 2) throw new TypeError('each header needs a name and a value');
                this.append(pair[0], pair[1]);
            }
        }
        append(name, value) {
            name = nameOf(name);
            const list = this.#map.get(name);
            if (list) list.push(valueOf(value)); else this.#map.set(name, [valueOf(value)]);
        }
        set(name, value) { this.#map.set(nameOf(name), [valueOf(value)]); }
        get(name) { return this.#map.get(nameOf(name))?.join(', ') ?? null; }
        has(name) { return this.#map.has(nameOf(name)); }
        delete(name) { this.#map.delete(nameOf(name)); }
        getSetCookie() { return [...this.#map.get('set-cookie') ?? []]; }
        *entries() { for (const name of [...this.#map.keys()].sort()) yield [name, this.get(name)]; }
        *keys() { for (const [name] of this.entries()) yield name; }
        *values() { for (const [, value] of this.entries()) yield value; }
        forEach(callback, self) { for (const [name, value] of this.entries()) callback.call(self, value, name, this); }
        [Symbol.iterator]() { return this.entries(); }
        [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) { return 'Headers ' + inspect(Object.fromEntries(this.entries())); }
        get [Symbol.toStringTag]() { return 'Headers'; }
    }
    const toBytes = (body) => {
        if (body === undefined || body === null) return null;
        if (body instanceof ArrayBuffer) return new Uint8Array(body.slice(0));
        if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice();
        return new TextEncoder().encode(String(body));
    };
    const typeOf = (body) => typeof body === 'string' ? 'text/plain;charset=UTF-8'
        : body instanceof URLSearchParams ? 'application/x-www-form-urlencoded;charset=UTF-8' : null;
    class Body {
        #bytes; #used = false;
        constructor(bytes) { this.#bytes = bytes; }
        get bodyUsed() { return this.#used; }
        get body() { return this.#bytes === null ? null : { locked: this.#used }; }
        async bytes() {
            if (this.#used) throw new TypeError('Body is unusable: Body has already been read');
            this.#used = this.#bytes !== null;
            return this.#bytes ?? new Uint8Array(0);
        }
        async arrayBuffer() { const bytes = await this.bytes(); return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength); }
        async text() { return new TextDecoder().decode(await this.bytes()); }
        async json() { return JSON.parse(await this.text()); }
        static peek(body) {
            if (body.#used) throw new TypeError('Body is unusable: Body has already been read');
            return body.#bytes;
        }
    }
    const { peek } = Body;
    delete Body.peek;
    const methods = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH'];
    class Request extends Body {
        constructor(input, init = {}) {
            const from = input instanceof Request ? input : null;
            const body = init.body !== undefined ? init.body : null;
            super(body !== null ? toBytes(body) : from ? peek(from) : null);
            this.url = from ? from.url : new URL(String(input)).href;
            const method = String(init.method ?? from?.method ?? 'GET');
            this.method = methods.includes(method.toUpperCase()) ? method.toUpperCase() : method;
            if (!token.test(this.method) || /^(connect|trace|track)$/i.test(this.method)) throw new TypeError(`'${method}' is not a method that fetch can use`);
            this.headers = new Headers(init.headers ?? from?.headers);
            this.signal = init.signal ?? from?.signal ?? null;
            this.redirect = init.redirect ?? from?.redirect ?? 'follow';
            if (body !== null && (this.method === 'GET' || this.method === 'HEAD')) throw new TypeError('Request with GET/HEAD method cannot have body.');
            if (body !== null && typeOf(body) !== null && !this.headers.has('content-type')) this.headers.set('content-type', typeOf(body));
        }
        clone() { return new Request(this); }
        get [Symbol.toStringTag]() { return 'Request'; }
    }
    class Response extends Body {
        constructor(body = null, init = {}) {
            super(toBytes(body));
            const status = init.status ?? 200;
            if (!(status >= 200 && status <= 599)) throw new RangeError('init["status"] must be in the range of 200 to 599, inclusive.');
            this.status = status;
            this.statusText = String(init.statusText ?? '');
            this.headers = new Headers(init.headers);
            this.type = 'default';
            this.url = '';
            this.redirected = false;
            if (body !== null && typeOf(body) !== null && !this.headers.has('content-type')) this.headers.set('content-type', typeOf(body));
        }
        get ok() { return this.status >= 200 && this.status <= 299; }
        clone() { const copy = new Response(peek(this), this); copy.url = this.url; return copy; }
        static json(data, init = {}) {
            const headers = new Headers(init.headers);
            if (!headers.has('content-type')) headers.set('content-type', 'application/json');
            return new Response(JSON.stringify(data), { ...init, headers });
        }
        static error() { const response = new Response(null); response.status = 0; response.type = 'error'; return response; }
        static redirect(url, status = 302) { return new Response(null, { status, headers: { location: new URL(url).href } }); }
        get [Symbol.toStringTag]() { return 'Response'; }
    }
    // As in browsers every failure is a TypeError; its cause says more. Aborting ends the request.
    const ask = (args, signal) => {
        const call = {}, answer = bridge('fetch', args, call);
        return new Promise((resolve, reject) => {
            const onAbort = () => { call.cancel(); reject(signal.reason); };
            const end = () => signal?.removeEventListener('abort', onAbort);
            signal?.addEventListener('abort', onAbort, { once: true });
            answer.then((data) => { end(); resolve(data); }, (cause) => {
                end();
                if (cause instanceof TypeError) return reject(cause);
                const error = new TypeError(cause.message, { cause });
                Object.defineProperty(error, 'stack', { value: cause.stack, writable: true, configurable: true });
                reject(error);
            });
        });
    };
    const fetch = async function fetch(input, init = {}) {
        const request = new Request(input, init);
        const bytes = peek(request);
        const options = { method: request.method, headers: Object.fromEntries(request.headers.entries()), redirect: request.redirect };
        if (bytes !== null) options.body = new TextDecoder().decode(bytes);
        const { signal } = request;
        signal?.throwIfAborted();
        const data = await ask([request.url, options], signal);
        const body = data.bodyBase64 !== undefined ? Uint8Array.from(atob(data.bodyBase64), (char) => char.charCodeAt(0)) : data.body ?? null;
        const empty = data.status === 204 || data.status === 205 || data.status === 304;
        const response = new Response(empty ? null : body, { status: data.status, statusText: data.statusText, headers: data.headers });
        response.url = data.url ?? request.url;
        response.redirected = !!data.redirected;
        return response;
    };
    return { Headers, Request, Response, fetch };
})
