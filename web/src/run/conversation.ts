// Events of the questions of a live run, in words. Pure.

import { clock, wordFor } from '../lib/format';
import { actOf } from '../questions/ask';
import type { Envelope, QuestionFacet } from './items';

const outcomes: Record<string, string> = { allow: 'Allowed', deny: 'Denied', submitted: 'Submitted', declined: 'Declined', cancelled: 'Cancelled', unknown: 'Answered' };
const deciders: Record<string, string> = {
  person: ' by a person', policy: ' by the policy', timeout: ', nobody answered in time', cancel: ', the turn was cancelled', agent: ' by the agent',
};

/** What an event of a question says; undefined: it is another event. */
export function conversationWords({ message, data }: Envelope): string | undefined {
  const { question, asked, answer } = data ?? {};
  switch (message) {
    case 'permission asked': case 'question asked': return question && `${sentence(question)}${question.id}`;
    case 'people asked': return asked && `People are asked: ${asked.id}, ${dueWords(asked)}`;
    case 'answered': return answer && `${wordFor(outcomes, answer.outcome, 'Answered')}${wordFor(deciders, answer.by)}: ${answer.id}`;
    case 'question withdrawn': return answer && `Withdrawn${wordFor({ agent: ' by the agent' }, answer.by)}: ${answer.id}`;
    default: return undefined;
  }
}

const sentence = (q: QuestionFacet): string => (q.kind === 'form' ? 'The agent asks something: ' : `The agent asks to ${actOf({ kind: '', tool: q.tool })}: `);

function dueWords({ kind, due }: QuestionFacet): string {
  return due ? `${kind === 'form' ? 'cancelled' : 'denied'} at ${clock(new Date(due).toISOString())} unless answered` : 'without a limit';
}
