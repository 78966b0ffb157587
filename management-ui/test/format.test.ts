import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytes, count, percent, rate, short, span, visible } from '../src/lib/format';
import { align, rates, sum } from '../src/lib/series';

test('numbers', () => {
  assert.deepEqual([0, 9999, 12345, 4_100_000, undefined, NaN].map(short), ['0', '9,999', '12.3k', '4.1M', '–', '–']);
  assert.deepEqual([0, 1234567, undefined].map(count), ['0', '1,234,567', '–']);
  assert.deepEqual([0, 0.001, 0.5, 12.34, 1234.5, undefined].map(rate), ['0/s', '0/s', '0.5/s', '12.3/s', '1,235/s', '–']);
  assert.deepEqual([0, 1023, 1024, 1536, 123 * 2 ** 20, 5 * 2 ** 40].map(bytes), ['0 B', '1,023 B', '1 KiB', '1.5 KiB', '123 MiB', '5 TiB']);
  assert.equal(percent(1, 3), '33.3 %');
  assert.equal(percent(1, 0), '–');
});

test('spans have their two largest units', () => {
  assert.deepEqual([0, 999, 61_000, 3_600_000, 90_061_000].map(span), ['0 s', '1 s', '1 m 1 s', '1 h', '1 d 1 h']);
});

test('what cannot be seen in a name is made visible', () => {
  assert.equal(visible('a\r\nb\t\0\x7f'), 'a␍␊b␉␀␡');
  assert.equal(visible('x\u202egpj\u200b'), 'x\\u202egpj\\u200b');
  assert.equal(visible('<b>ä 🐇'), '<b>ä 🐇');
});

test('rates from counters, newest first as the API has them; a counter that went back stands still', () => {
  const samples = [40, 30, 5, 10].map((sample, i) => ({ sample, timestamp: 20_000 - 5000 * i }));
  assert.deepEqual(rates({ rate: 2, samples }).map((p) => p.sample), [0, 5, 2]);
});

test('lines are aligned by time', () => {
  const at = (timestamp: number, sample: number) => ({ timestamp, sample });
  const lines = [
    { name: 'a', colour: 's0', points: [at(1000, 1), at(2000, 2)] },
    { name: 'b', colour: 's1', points: [at(2000, 5)] },
  ];
  assert.deepEqual(align(lines), [[1, 2], [1, 2], [null, 5]]);
  assert.deepEqual(sum(lines[0]!.points, lines[1]!.points).map((p) => p.sample), [1, 7]);
});
