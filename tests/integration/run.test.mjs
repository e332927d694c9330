// `sandglass run`, as people and programs call it.
import assert from 'node:assert';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';

const run = (args, options = {}) => {
    const { status, stdout, stderr } = spawnSync(process.env.SANDGLASS_BIN, ['run', ...args], { encoding: 'utf8', ...options });
    return { status, stdout, stderr };
};

test('prints the console and then the value', () => {
    assert.deepStrictEqual(run(['-e', 'console.log("a", {b: 1}); console.error("e"); [1, 2]']),
        { status: 0, stdout: "a { b: 1 }\n[ 1, 2 ]\n", stderr: 'e\n' });
    assert.deepStrictEqual(run(['-e', 'undefined']), { status: 0, stdout: '', stderr: '' });
});

test('exit codes tell failure from timeout from misuse', () => {
    const failed = run(['-e', '\nthrow new TypeError("bad")']);
    assert.strictEqual(failed.status, 1);
    assert.match(failed.stderr, /^TypeError: bad\n {4}at script\.ts:2:/);
    assert.strictEqual(run(['-e', 'for (;;);', '--timeout', '1']).status, 124);
    assert.strictEqual(run(['-e', '1', '--lang', 'cobol']).status, 2);
    assert.strictEqual(run(['-e', '1', '--timeout', 'soon']).status, 2);
    assert.strictEqual(run(['-e', '1', 'file.js']).status, 2);
    assert.strictEqual(run(['no-such-file.js']).status, 1);
});

test('reads standard input, and TypeScript by name', () => {
    assert.strictEqual(run(['-', '--lang', 'ts'], { input: 'const x: number = 20; x + 1' }).stdout, '21\n');
    const refused = run(['-', '--lang', 'ts'], { input: 'const a = 1;\nenum E { A }' });
    assert.strictEqual(refused.status, 1);
    assert.match(refused.stderr, /line 2.*enum/);
});

test('imports files beside the script and none outside', () => {
    const dir = mkdtempSync(join(tmpdir(), 'run-'));
    try {
        mkdirSync(join(dir, 'app/lib'), { recursive: true });
        writeFileSync(join(dir, 'secret.js'), 'export default "secret"');
        writeFileSync(join(dir, 'app/lib/b.ts'), 'export const b: number = 41');
        writeFileSync(join(dir, 'app/a.js'), "import { b } from './lib/b.ts'; export default b + 1");
        writeFileSync(join(dir, 'app/up.js'), "import s from '../secret.js'; export default s");
        symlinkSync('../secret.js', join(dir, 'app/link.js'));
        writeFileSync(join(dir, 'app/through.js'), "import s from './link.js'; export default s");
        assert.strictEqual(run([join(dir, 'app/a.js')]).stdout, '42\n');
        for (const file of ['up.js', 'through.js']) {
            const { status, stdout } = run([join(dir, 'app', file)]);
            assert.notStrictEqual(status, 0);
            assert.strictEqual(stdout, '');
        }
    } finally {
        rmSync(dir, { recursive: true });
    }
});

test('--json is one object with everything', () => {
    const { status, stdout } = run(['--json', '-e', 'console.log(1); console.warn("w"); ({a: [1n]})', '--hint', 'latitude=52.5', '--timeout', '99999', '--memory', '8']);
    assert.strictEqual(status, 0);
    const answer = JSON.parse(stdout);
    assert.ok(answer.durationMs >= 0);
    delete answer.durationMs;
    assert.deepStrictEqual(answer, {
        status: 'ok', success: true, result: { a: ['1n'] }, error: null, stateLost: false, stateLostReason: null, stateLostAt: null, stateLostMessage: null, stdout: '1\n', stderr: 'w\n',
        truncatedStdout: 0, truncatedStderr: 0, truncatedMessage: null, codeSize: 46,
        environment: {
            language: 'typescript', runtime: 'isolate', timeoutMs: 99999,
            limits: { memoryMb: 8, stackKb: 512, codeChars: 12000, consoleLines: 100, resultDepth: 10, resultItems: 200 },
            locationHints: { latitude: 52.5, longitude: null, city: null, country: null },
            warnings: [],
        },
    });
    const failed = JSON.parse(run(['--json', '-e', 'throw new RangeError("r")']).stdout);
    assert.strictEqual(failed.status, 'error');
    assert.deepStrictEqual([failed.error.name, failed.error.message, failed.result], ['RangeError', 'r', null]);
    assert.strictEqual(JSON.parse(run(['--json', '-e', 'for (let i = 0; i < 130; i++) console.log(i)']).stdout).truncatedStdout, 30);
});

test('grants only the variables that were named', () => {
    const env = { ...process.env, GRANTED: 'yes', HIDDEN: 'no' };
    assert.strictEqual(run(['-e', 'process.env', '--env', 'GRANTED'], { env }).stdout, "{ GRANTED: 'yes' }\n");
    assert.strictEqual(run(['-e', 'process.env', '--env', 'GIVEN=1'], { env }).stdout, "{ GIVEN: '1' }\n");
});
