// crypto.getRandomValues and crypto.randomUUID, from the host's randomness.
(function (host) {
    'use strict';
    const RANDOM = 7, MAX = 65536;
    const kinds = [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array];
    class Crypto {
        getRandomValues(array) {
            if (!kinds.some((kind) => array instanceof kind))
                throw new TypeError('getRandomValues needs an integer typed array');
            if (array.byteLength > MAX)
                throw new DOMException(`getRandomValues gives at most ${MAX} bytes, not ${array.byteLength}`, 'QuotaExceededError');
            new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(host(RANDOM, array.byteLength));
            return array;
        }
        randomUUID() {
            const bytes = host(RANDOM, 16);
            bytes[6] = bytes[6] & 15 | 64;
            bytes[8] = bytes[8] & 63 | 128;
            let text = '';
            for (let i = 0; i < 16; i++) {
                if (i === 4 || i === 6 || i === 8 || i === 10) text += '-';
                text += (bytes[i] + 256).toString(16).slice(1);
            }
            return text;
        }
    }
    return { crypto: new Crypto() };
})
