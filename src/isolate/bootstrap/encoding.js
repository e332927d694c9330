// TextEncoder and TextDecoder: UTF-8, UTF-16LE and Latin-1.
(function () {
    'use strict';
    const bytesOf = (input) => {
        if (input === undefined) return new Uint8Array(0);
        if (input instanceof ArrayBuffer) return new Uint8Array(input);
        if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
        throw new TypeError('decode needs an ArrayBuffer or a view of one');
    };
    class TextEncoder {
        get encoding() { return 'utf-8'; }
        encode(text = '') {
            text = String(text).toWellFormed();
            const out = new Uint8Array(text.length * 3);
            return out.slice(0, this.encodeInto(text, out).written);
        }
        encodeInto(text, out) {
            let read = 0, written = 0;
            for (const char of String(text).toWellFormed()) {
                const point = char.codePointAt(0);
                const size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
                if (written + size > out.length) break;
                if (size === 1) out[written] = point;
                else {
                    for (let i = size - 1, rest = point; i > 0; i--, rest >>= 6) out[written + i] = rest & 63 | 128;
                    out[written] = point >> 6 * (size - 1) | [0, 0, 0xc0, 0xe0, 0xf0][size];
                }
                written += size;
                read += char.length;
            }
            return { read, written };
        }
    }
    const labels = { 'utf8': 'utf-8', 'utf-8': 'utf-8', 'unicode-1-1-utf-8': 'utf-8', 'utf-16': 'utf-16le', 'utf-16le': 'utf-16le',
        'ascii': 'windows-1252', 'latin1': 'windows-1252', 'iso-8859-1': 'windows-1252', 'windows-1252': 'windows-1252' };
    class TextDecoder {
        #encoding; #fatal; #keepMark; #rest = new Uint8Array(0); #seenMark = false;
        constructor(label = 'utf-8', options = {}) {
            this.#encoding = labels[String(label).trim().toLowerCase()];
            if (this.#encoding === undefined) throw new RangeError(`The encoding '${label}' is not supported: utf-8, utf-16le and latin1 are`);
            this.#fatal = !!options?.fatal;
            this.#keepMark = !!options?.ignoreBOM;
        }
        get encoding() { return this.#encoding; }
        get fatal() { return this.#fatal; }
        get ignoreBOM() { return this.#keepMark; }
        decode(input, options = {}) {
            let bytes = bytesOf(input);
            if (this.#rest.length > 0) {
                const joined = new Uint8Array(this.#rest.length + bytes.length);
                joined.set(this.#rest);
                joined.set(bytes, this.#rest.length);
                bytes = joined;
                this.#rest = new Uint8Array(0);
            }
            const more = !!options?.stream;
            let text = this.#encoding === 'utf-8' ? this.#utf8(bytes, more) : this.#encoding === 'utf-16le' ? this.#utf16(bytes, more) : this.#latin(bytes);
            if (!this.#keepMark && !this.#seenMark && text.length > 0) {
                if (text.charCodeAt(0) === 0xfeff && this.#encoding !== 'windows-1252') text = text.slice(1);
                this.#seenMark = true;
            }
            if (!more) this.#seenMark = false;
            return text;
        }
        #bad() {
            if (this.#fatal) throw new TypeError(`The encoded data was not valid for encoding ${this.#encoding}`);
            return '\ufffd';
        }
        #latin(bytes) {
            let text = '';
            for (let i = 0; i < bytes.length; i++) text += String.fromCharCode(bytes[i]);
            return text;
        }
        #utf16(bytes, more) {
            let text = '';
            let i = 0;
            for (; i + 1 < bytes.length; i += 2) text += String.fromCharCode(bytes[i] | bytes[i + 1] << 8);
            if (i < bytes.length) { if (more) this.#rest = bytes.slice(i); else text += this.#bad(); }
            return text.isWellFormed() ? text : (this.#fatal && this.#bad(), text.toWellFormed());
        }
        #utf8(bytes, more) {
            let text = '', i = 0;
            while (i < bytes.length) {
                const lead = bytes[i];
                if (lead < 0x80) { text += String.fromCharCode(lead); i++; continue; }
                const size = lead >= 0xc2 && lead <= 0xdf ? 2 : lead >= 0xe0 && lead <= 0xef ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
                if (size === 0) { text += this.#bad(); i++; continue; }
                let point = lead & (size === 2 ? 31 : size === 3 ? 15 : 7), n = 1;
                for (; n < size && i + n < bytes.length; n++) {
                    const next = bytes[i + n];
                    const low = n === 1 ? (lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80) : 0x80;
                    const high = n === 1 ? (lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf) : 0xbf;
                    if (next < low || next > high) break;
                    point = point << 6 | next & 63;
                }
                if (n === size) text += String.fromCodePoint(point);
                else if (more && i + n === bytes.length) { this.#rest = bytes.slice(i); break; }
                else text += this.#bad();
                i += n;
            }
            return text;
        }
    }
    return { TextEncoder, TextDecoder };
})
