// URL and URLSearchParams by the WHATWG rules, without IDNA: host names are ASCII (punycode is kept).
(function () {
    'use strict';
    const ports = { 'http:': '80', 'https:': '443', 'ws:': '80', 'wss:': '443', 'ftp:': '21', 'file:': '' };
    const isSpecial = (scheme) => scheme in ports;
    const utf8 = (text) => new TextEncoder().encode(text);
    const hex = (byte) => '%' + (byte + 256).toString(16).slice(1).toUpperCase();
    const encode = (text, escaped) => {
        let out = '';
        for (const char of text) {
            const code = char.codePointAt(0);
            if (code > 0x20 && code < 0x7f && !escaped.includes(char)) out += char;
            else for (const byte of utf8(char)) out += hex(byte);
        }
        return out;
    };
    const FRAGMENT = '"<>`', QUERY = '"#<>', SPECIAL_QUERY = '"#<>\'', PATH = '"#<>?`{}^', USER = '"#<>?`{}^/:;=@[\\]|';
    const decode = (text) => {
        if (!text.includes('%')) return text;
        const bytes = [];
        const raw = utf8(text);
        for (let i = 0; i < raw.length; i++) {
            const value = raw[i] === 37 ? parseInt(String.fromCharCode(raw[i + 1], raw[i + 2]), 16) : NaN;
            if (raw[i] === 37 && /^[0-9a-f]{2}$/i.test(String.fromCharCode(raw[i + 1] ?? 32, raw[i + 2] ?? 32))) { bytes.push(value); i += 2; } else bytes.push(raw[i]);
        }
        return new TextDecoder().decode(Uint8Array.from(bytes));
    };
    const fail = (input) => { const error = new TypeError('Invalid URL'); error.code = 'ERR_INVALID_URL'; error.input = input; throw error; };

    const ipv4Part = (part) => {
        if (part === '') return NaN;
        if (/^0x[0-9a-f]*$/i.test(part)) return part.length === 2 ? 0 : parseInt(part, 16);
        if (/^0[0-7]*$/.test(part)) return parseInt(part, 8);
        return /^[0-9]+$/.test(part) ? parseInt(part, 10) : NaN;
    };
    const ipv4 = (host) => {
        const parts = host.split('.');
        if (parts.length > 1 && parts[parts.length - 1] === '') parts.pop();
        const last = parts[parts.length - 1];
        if (!/^[0-9]+$/.test(last) && !/^0x[0-9a-f]*$/i.test(last)) return null;
        if (parts.length > 4) return undefined;
        const numbers = parts.map(ipv4Part);
        if (numbers.some((n) => n !== n) || numbers.slice(0, -1).some((n) => n > 255)) return undefined;
        if (numbers[numbers.length - 1] >= 256 ** (5 - numbers.length)) return undefined;
        let value = numbers[numbers.length - 1];
        for (let i = 0; i < numbers.length - 1; i++) value += numbers[i] * 256 ** (3 - i);
        return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.');
    };
    const ipv6 = (text) => {
        const halves = text.split('::');
        if (halves.length > 2) return undefined;
        const read = (half) => {
            if (half === '') return [];
            const out = [];
            const parts = half.split(':');
            for (let i = 0; i < parts.length; i++) {
                if (parts[i].includes('.') && i === parts.length - 1) {
                    if (!/^(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}$/.test(parts[i])) return undefined;
                    const bytes = parts[i].split('.').map(Number);
                    if (bytes.some((byte) => byte > 255)) return undefined;
                    out.push(bytes[0] * 256 + bytes[1], bytes[2] * 256 + bytes[3]);
                } else if (/^[0-9a-f]{1,4}$/i.test(parts[i])) out.push(parseInt(parts[i], 16));
                else return undefined;
            }
            return out;
        };
        const head = read(halves[0]), tail = halves.length === 2 ? read(halves[1]) : [];
        if (head === undefined || tail === undefined) return undefined;
        const missing = 8 - head.length - tail.length;
        if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
        const words = [...head, ...new Array(missing).fill(0), ...tail];
        let best = -1, length = 1;
        for (let i = 0; i < 8; i++) {
            let n = 0;
            while (i + n < 8 && words[i + n] === 0) n++;
            if (n > length) { best = i; length = n; }
        }
        let out = '';
        for (let i = 0; i < 8; i++) {
            if (i === best) { out += i === 0 ? '::' : ':'; i += length - 1; continue; }
            out += words[i].toString(16) + (i < 7 ? ':' : '');
        }
        return `[${out}]`;
    };
    const parseHost = (text, special) => {
        if (text.startsWith('[')) return text.endsWith(']') ? ipv6(text.slice(1, -1)) : undefined;
        if (!special) return /[\0\t\n\r #/:<>?@[\\\]^|]/.test(text) ? undefined : encode(text, '');
        const host = decode(text).toLowerCase();
        if (host === '' || /[\0-\x20"#%/:<>?@[\\\]^`{|}\x7f]/.test(host)) return undefined;
        if (/[^\0-\x7f]/.test(host)) return undefined;
        const address = ipv4(host);
        return address === null ? host : address;
    };
    const isWindowsDrive = (part) => /^[a-z][:|]$/i.test(part);
    const resolvePath = (parts, base, special) => {
        const out = [...base];
        parts.forEach((part, i) => {
            const last = i === parts.length - 1, plain = part.replace(/%2e/gi, '.');
            if (plain === '..') { out.pop(); if (last) out.push(''); }
            else if (plain === '.') { if (last) out.push(''); }
            else out.push(encode(part, PATH));
        });
        return out;
    };
    const parse = (input, base) => {
        input = input.replace(/^[\0-\x20]+|[\0-\x20]+$/g, '').replace(/[\t\n\r]/g, '');
        const url = { scheme: '', user: '', password: '', host: null, port: '', path: [], opaque: null, query: null, fragment: null };
        let rest = input;
        const hash = rest.indexOf('#');
        if (hash >= 0) { url.fragment = encode(rest.slice(hash + 1), FRAGMENT); rest = rest.slice(0, hash); }
        const scheme = /^[a-z][a-z0-9+\-.]*:/i.exec(rest);
        const takeQuery = () => {
            const mark = rest.indexOf('?');
            if (mark < 0) return false;
            url.query = encode(rest.slice(mark + 1), isSpecial(url.scheme) ? SPECIAL_QUERY : QUERY);
            rest = rest.slice(0, mark);
            return true;
        };
        let relative = scheme === null;
        if (scheme !== null) {
            url.scheme = scheme[0].toLowerCase();
            if (isSpecial(url.scheme) && base && base.scheme === url.scheme && url.scheme !== 'file:' && !/^[/\\]/.test(rest.slice(scheme[0].length))) relative = true;
            rest = rest.slice(scheme[0].length);
        }
        if (relative) {
            if (!base || (base.opaque !== null && !(rest === '' && hash >= 0))) return undefined;
            url.scheme = base.scheme;
        }
        const special = isSpecial(url.scheme);
        const asked = takeQuery();
        if (special) rest = rest.replace(/\\/g, '/');
        const withAuthority = relative ? rest.startsWith('//') : special ? url.scheme !== 'file:' || rest.startsWith('//') : rest.startsWith('//');
        if (withAuthority) {
            if (!relative && special && url.scheme !== 'file:') rest = rest.replace(/^\/*/, ''); else rest = rest.slice(2);
            const end = rest.indexOf('/');
            let authority = end < 0 ? rest : rest.slice(0, end);
            rest = end < 0 ? '' : rest.slice(end);
            const at = authority.lastIndexOf('@');
            if (at >= 0) {
                const login = authority.slice(0, at), colon = login.indexOf(':');
                url.user = encode(colon < 0 ? login : login.slice(0, colon), USER);
                url.password = colon < 0 ? '' : encode(login.slice(colon + 1), USER);
                authority = authority.slice(at + 1);
                if (authority === '') return undefined;
            }
            const port = /:([^\]:]*)$/.exec(authority);
            if (port !== null) {
                if (!/^[0-9]*$/.test(port[1]) || +port[1] > 65535) return undefined;
                authority = authority.slice(0, port.index);
                if (port[1] !== '' && String(+port[1]) !== ports[url.scheme]) url.port = String(+port[1]);
            }
            if (authority === '' && special && url.scheme !== 'file:') return undefined;
            url.host = authority === '' ? '' : parseHost(authority, special);
            if (url.host === undefined) return undefined;
            if (url.scheme === 'file:' && url.host === 'localhost') url.host = '';
            url.path = rest === '' ? special ? [''] : [] : resolvePath(rest.slice(1).split('/'), [], special);
            return url;
        }
        if (relative) {
            for (const part of ['user', 'password', 'host', 'port']) url[part] = base[part];
            if (base.opaque !== null) { url.opaque = base.opaque; url.query = base.query; return url; }
            if (rest === '') { url.path = [...base.path]; if (!asked) url.query = base.query; }
            else if (rest.startsWith('/')) url.path = resolvePath(rest.slice(1).split('/'), [], special);
            else url.path = resolvePath(rest.split('/'), base.path.slice(0, -1), special);
            return url;
        }
        if (url.scheme === 'file:') {
            url.host = '';
            url.path = resolvePath(rest.replace(/^\//, '').split('/'), [], special);
            return url;
        }
        if (rest.startsWith('/')) { url.path = resolvePath(rest.slice(1).split('/'), [], special); return url; }
        url.opaque = [...rest].map((char) => { const code = char.codePointAt(0); return code < 0x20 || code > 0x7e ? encode(char, '') : char; }).join('');
        return url;
    };
    const pathOf = (url) => url.opaque !== null ? url.opaque : url.path.length === 0 ? '' : '/' + url.path.join('/');
    const write = (url) => {
        let out = url.scheme;
        if (url.host !== null) {
            out += '//';
            if (url.user !== '' || url.password !== '') out += url.user + (url.password !== '' ? ':' + url.password : '') + '@';
            out += url.host + (url.port !== '' ? ':' + url.port : '');
        } else if (url.opaque === null && url.path.length > 1 && url.path[0] === '') out += '/.';
        return out + pathOf(url) + (url.query !== null ? '?' + url.query : '') + (url.fragment !== null ? '#' + url.fragment : '');
    };

    const form = (text) => encode(text, '!"#$%&\'()+,/:;<=>?@[\\]^`{|}~').replace(/%20/g, '+');
    const readForm = (text) => text.split('&').filter((part) => part !== '').map((part) => {
        const at = part.indexOf('=');
        const name = at < 0 ? part : part.slice(0, at), value = at < 0 ? '' : part.slice(at + 1);
        return [decode(name.replace(/\+/g, ' ')), decode(value.replace(/\+/g, ' '))];
    });
    class URLSearchParams {
        #list = []; #changed = null;
        constructor(init = '') {
            if (typeof init === 'object' && init !== null) {
                if (typeof init[Symbol.iterator] === 'function') {
                    for (const pair of init) {
                        const both = [...pair];
                        if (both.length !== 2) throw new TypeError('Each query pair must be an iterable [name, value] tuple');
                        this.#list.push([String(both[0]).toWellFormed(), String(both[1]).toWellFormed()]);
                    }
                } else for (const key of Object.keys(init)) this.#list.push([key.toWellFormed(), String(init[key]).toWellFormed()]);
            } else {
                const text = String(init).toWellFormed();
                this.#list = readForm(text.startsWith('?') ? text.slice(1) : text);
            }
        }
        static bind(params, changed, query) { params.#changed = changed; params.#list = readForm(query); }
        #touch() { if (this.#changed) this.#changed(this.toString()); }
        get size() { return this.#list.length; }
        append(name, value) { this.#list.push([String(name), String(value)]); this.#touch(); }
        delete(name, value) { this.#list = this.#list.filter((pair) => !(pair[0] === String(name) && (value === undefined || pair[1] === String(value)))); this.#touch(); }
        get(name) { return this.#list.find((pair) => pair[0] === String(name))?.[1] ?? null; }
        getAll(name) { return this.#list.filter((pair) => pair[0] === String(name)).map((pair) => pair[1]); }
        has(name, value) { return this.#list.some((pair) => pair[0] === String(name) && (value === undefined || pair[1] === String(value))); }
        set(name, value) {
            const at = this.#list.findIndex((pair) => pair[0] === String(name));
            if (at < 0) this.#list.push([String(name), String(value)]);
            else {
                this.#list[at] = [String(name), String(value)];
                this.#list = this.#list.filter((pair, i) => i <= at || pair[0] !== String(name));
            }
            this.#touch();
        }
        sort() { this.#list.sort((a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0); this.#touch(); }
        toString() { return this.#list.map(([name, value]) => form(name) + '=' + form(value)).join('&'); }
        forEach(callback, self) { for (const [name, value] of this.#list) callback.call(self, value, name, this); }
        *entries() { for (const pair of this.#list) yield [...pair]; }
        *keys() { for (const [name] of this.#list) yield name; }
        *values() { for (const [, value] of this.#list) yield value; }
        [Symbol.iterator]() { return this.entries(); }
        [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) {
            return this.#list.length === 0 ? 'URLSearchParams {}' : `URLSearchParams { ${this.#list.map(([name, value]) => `${inspect(name)} => ${inspect(value)}`).join(', ')} }`;
        }
        get [Symbol.toStringTag]() { return 'URLSearchParams'; }
    }
    const { bind } = URLSearchParams;
    delete URLSearchParams.bind;
    class URL {
        #url; #params = null;
        constructor(input, base) {
            const root = base === undefined ? undefined : parse(String(base));
            if (base !== undefined && root === undefined) fail(String(base));
            this.#url = parse(String(input).toWellFormed(), root);
            if (this.#url === undefined) fail(String(input));
        }
        static canParse(input, base) { try { new URL(input, base); return true; } catch { return false; } }
        static parse(input, base) { try { return new URL(input, base); } catch { return null; } }
        get href() { return write(this.#url); }
        set href(text) { const url = parse(String(text)); if (url === undefined) fail(text); this.#url = url; this.#refresh(); }
        get origin() { const { scheme, host, port } = this.#url; return isSpecial(scheme) && scheme !== 'file:' ? `${scheme}//${host}${port !== '' ? ':' + port : ''}` : 'null'; }
        get protocol() { return this.#url.scheme; }
        set protocol(text) {
            const scheme = String(text).split(':')[0].toLowerCase() + ':';
            if (/^[a-z][a-z0-9+\-.]*:$/.test(scheme) && isSpecial(scheme) === isSpecial(this.#url.scheme)) {
                this.#url.scheme = scheme;
                if (this.#url.port === ports[scheme]) this.#url.port = '';
            }
        }
        get username() { return this.#url.user; }
        set username(text) { if (this.#url.host) this.#url.user = encode(String(text), USER); }
        get password() { return this.#url.password; }
        set password(text) { if (this.#url.host) this.#url.password = encode(String(text), USER); }
        get host() { const { host, port } = this.#url; return host === null ? '' : host + (port !== '' ? ':' + port : ''); }
        set host(text) { this.#reparse(String(text), true); }
        get hostname() { return this.#url.host ?? ''; }
        set hostname(text) { if (!String(text).includes(':') || String(text).startsWith('[')) this.#reparse(String(text), false); }
        get port() { return this.#url.port; }
        set port(text) {
            text = String(text);
            if (!this.#url.host) return;
            const digits = /^[0-9]+/.exec(text);
            if (text === '') this.#url.port = '';
            else if (digits !== null && +digits[0] <= 65535) this.#url.port = String(+digits[0]) === ports[this.#url.scheme] ? '' : String(+digits[0]);
        }
        get pathname() { return pathOf(this.#url); }
        set pathname(text) {
            if (this.#url.opaque !== null) return;
            text = String(text);
            if (isSpecial(this.#url.scheme)) text = text.replace(/\\/g, '/');
            this.#url.path = resolvePath(text.replace(/^\//, '').replace(/[?#]/g, encodeURIComponent).split('/'), [], true);
        }
        get search() { return this.#url.query ? '?' + this.#url.query : ''; }
        set search(text) {
            text = String(text);
            this.#url.query = text === '' ? null : encode(text.replace(/^\?/, ''), isSpecial(this.#url.scheme) ? SPECIAL_QUERY : QUERY);
            this.#refresh();
        }
        get searchParams() {
            if (this.#params === null) { this.#params = new URLSearchParams(); this.#refresh(); }
            return this.#params;
        }
        get hash() { return this.#url.fragment ? '#' + this.#url.fragment : ''; }
        set hash(text) { text = String(text); this.#url.fragment = text === '' ? null : encode(text.replace(/^#/, ''), FRAGMENT); }
        toString() { return this.href; }
        toJSON() { return this.href; }
        #refresh() { if (this.#params !== null) bind(this.#params, (query) => { this.#url.query = query === '' ? null : query; }, this.#url.query ?? ''); }
        #reparse(text, withPort) {
            if (this.#url.opaque !== null) return;
            const probe = parse(`${isSpecial(this.#url.scheme) ? 'http:' : this.#url.scheme}//${text.split(/[/?#]/)[0]}/`);
            if (probe === undefined || probe.host === null) return;
            this.#url.host = probe.host;
            if (withPort && /:[0-9]+$/.test(text)) this.port = probe.port;
        }
        [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) {
            const shown = {};
            for (const name of ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'searchParams', 'hash']) shown[name] = this[name];
            return 'URL ' + inspect(shown);
        }
        get [Symbol.toStringTag]() { return 'URL'; }
    }
    return { URL, URLSearchParams };
})
