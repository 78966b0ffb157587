import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, format, href, parse, Unaddressable } from '../src/lib/paths';

const oddNames = ['orders', '/', '', ' ', 'a b', '%2F', '100%', '%', 'ä/ö?#&=+', '<img src=x onerror=alert(1)>"\'\r\n', '…', '🐇', '...', '?', '#'];

test('a link leads back to the names it was made of', () => {
  for (const name of oddNames.filter((n) => n !== '')) {
    assert.deepEqual(parse(href('queues', '/', name)), { page: 'queues', names: ['/', name], query: {} });
    assert.equal(format(parse(href('queues', '/', name))), href('queues', '/', name));
  }
});

test("RabbitMQ's links are understood", () => {
  assert.deepEqual(parse('#/queues/%2F/orders.new'), { page: 'queues', names: ['/', 'orders.new'], query: {} });
  assert.deepEqual(parse('#/'), { page: '', names: [], query: {} });
  assert.deepEqual(parse(''), { page: '', names: [], query: {} });
  assert.deepEqual(parse('#/queues/'), { page: 'queues', names: [], query: {} });
  assert.deepEqual(parse('#/connections/127.0.0.1%3A5%20-%3E%20127.0.0.1%3A6').names, ['127.0.0.1:5 -> 127.0.0.1:6']);
});

test('a stray percent sign is taken as it is', () => assert.deepEqual(parse('#/queues/%2F/100%').names, ['/', '100%']));

test('the query part holds what a list shows', () => {
  const place = parse('#/queues?page=2&name=a%26b&vhost=%2F');
  assert.deepEqual(place.query, { page: '2', name: 'a&b', vhost: '/' });
  assert.equal(format(place), '#/queues?page=2&name=a%26b&vhost=%2F');
});

test('every name is one segment of a request', () => {
  for (const name of oddNames) {
    const path = api`queues/${'/'}/${name}/get`;
    assert.equal(new URL(path, 'http://h/api/').pathname.split('/').length, 6, path);
    assert.equal(decodeURIComponent(path.split('/')[2]!), name);
  }
});

test('a name that a browser takes for a step in the path is refused, not sent somewhere else', () => {
  for (const name of ['.', '..']) assert.throws(() => api`queues/${'/'}/${name}`, Unaddressable);
});

test('half a surrogate pair does no harm', () => assert.equal(api`users/${'a\ud800'}`, 'users/a%EF%BF%BD'));
