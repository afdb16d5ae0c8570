// Every example of both documents fits its schema, strictly.

import { Schemas, readDocument, resolve } from './spec.js';

let count = 0;
let failed = 0;

function judge(schemas, schema, value, where) {
  const errors = schemas.check(schema, value);
  count += 1;
  if (errors.length > 0) {
    failed += 1;
    console.log(`${where}:\n  ${errors.join('\n  ')}`);
  }
}

function checkContent(document, schemas, content, where) {
  for (const [type, media] of Object.entries(content ?? {})) {
    if (!media.examples) {
      failed += 1;
      console.log(`${where} ${type}: there is no example`);
    }
    for (const [name, example] of Object.entries(media.examples ?? {})) {
      judge(schemas, media.schema, resolve(document, example).value, `${where} ${type} ${name}`);
    }
  }
}

function checkRest(document) {
  const schemas = new Schemas(document);
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(item).filter(
      ([key]) => key !== 'parameters',
    )) {
      checkContent(document, schemas, operation.requestBody?.content, operation.operationId);
      for (const [status, response] of Object.entries(operation.responses)) {
        checkContent(
          document,
          schemas,
          resolve(document, response).content,
          `${operation.operationId} ${status}`,
        );
      }
    }
  }
  for (const [name, parameter] of Object.entries(document.components.parameters)) {
    if (parameter.example !== undefined) {
      judge(schemas, parameter.schema, parameter.example, `parameter ${name}`);
    }
  }
  for (const [name, header] of Object.entries(document.components.headers)) {
    if (header.example !== undefined) {
      judge(schemas, header.schema, header.example, `header ${name}`);
    }
  }
}

function checkMessages(document) {
  const schemas = new Schemas(document);
  for (const [name, message] of Object.entries(document.components.messages)) {
    for (const { payload } of message.examples) {
      judge(schemas, message.payload, payload, `message ${name}`);
    }
  }
}

checkRest(readDocument('openapi'));
checkMessages(readDocument('asyncapi'));
console.log(`${count} examples, ${failed} wrong`);
process.exit(failed === 0 ? 0 : 1);
