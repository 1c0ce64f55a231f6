/* How a question of a live run gets its answer: at most one, and who is told
 * success is the one in the log.
 *
 *	answerer ──▶ owner ──────▶ log ──▶ agent
 *	        └──▶ responder ──▶ log
 *
 * Two people answer at once, each with an answer of its own. Each asks the owner
 * of the run; if the owner is away, or late, a responder reads the log and appends
 * in its place. The log takes an entry only if its writer has read all before it:
 * the fence. The owner denies the question when its time is over, and gives the
 * agent what the first valid entry says. It may die at any point, and the next
 * one reads the log. A reply of the owner may be lost.
 *
 * Checked, for all interleavings within the bounds:
 *
 *	the agent gets one answer               the assertion of the owner's last step
 *	it is the one that is told as success   the assertions of tell
 *	progress                                the formula done
 *
 * To check that each step is needed, remove it: define NO_FENCE, NO_LOOK (an owner
 * that lives does not look for what others have stored) or NO_LOG_FIRST.
 */

#ifndef DEATHS
#define DEATHS 2 /* of the owner */
#endif
#define PEOPLE 2 /* answers 1 and 2; 3 is that of the time-out */
#define TIMEOUT 3
#define MOST 6

byte log[MOST], length; /* answers in the order of the log; the first is valid, the others are void */
byte got, answers;      /* what the agent has got, and how often */
byte deaths;
byte told[PEOPLE + 1];  /* told[0]: how many know the outcome; told[1], told[2]: who was told success */
bool late;              /* the time of the question is over: from any moment on, with LATE */

chan asks = [PEOPLE] of { byte };          /* requests to the owner */
chan replies[PEOPLE + 1] = [1] of { byte }; /* the decision */

/* append stores an answer of a writer that has read so many entries; ok: it is stored. */
inline append(answer, seen, ok) {
#ifdef NO_FENCE
	log[length] = answer; length++; ok = true
#else
	if
	:: length == seen -> log[length] = answer; length++; ok = true
	:: else -> ok = false
	fi
#endif
}

inline mayDie() {
	if
	:: skip
	:: deaths < DEATHS -> deaths++; goto start
	fi
}

/* tell tells a person the decision that its responder knows. */
inline tell(me, decision) {
	if
	:: decision == me -> told[me] = 1; assert(log[0] == me)
	:: else -> assert(decision == log[0])
	fi
}

proctype owner() {
	byte seen, who, sent, decision;
	bool ok;
start:
	atomic { /* the next owner reads the log, and knows whether RAW has the bytes of an answer for the agent */
		seen = length;
		sent = answers;
		decision = 0;
		if
		:: length > 0 -> decision = log[0]
		:: else
		fi
	}
	do
	:: atomic { decision > 0 && sent == 0 -> /* the append of the bytes has the fence, too: here one step */
		answers++; got = decision; sent = 1; assert(answers == 1 && got == log[0]); mayDie() }
	:: atomic { decision > 0 && sent > 0 && nempty(asks) ->
		asks ? who; if :: nfull(replies[who]) -> replies[who] ! decision :: skip fi; mayDie() }
	:: atomic { decision == 0 && nempty(asks) -> asks ? who };
		mayDie();
#ifdef NO_LOG_FIRST
		atomic { decision = who; answers++; got = who; sent = 1; if :: nfull(replies[who]) -> replies[who] ! who :: skip fi };
		mayDie();
#endif
		atomic { append(who, seen, ok);
			seen = length; decision = log[0];
			mayDie();
			if
			:: decision > 0 && nfull(replies[who]) -> replies[who] ! decision
			:: skip
			fi }
	:: atomic { decision == 0 && late -> append(TIMEOUT, seen, ok); seen = length; decision = log[0]; mayDie() }
#ifndef NO_LOOK
	:: atomic { decision == 0 && length > seen -> seen = length; decision = log[0] }
#endif
	:: atomic { decision > 0 && sent > 0 && empty(asks) && told[0] == PEOPLE -> break }
	od
}

proctype person(byte me) {
	byte decision, seen;
	bool ok;
	if
	:: atomic { asks ! me };
		if
		:: atomic { replies[me] ? decision -> tell(me, decision); goto over }
		:: skip /* five seconds have passed */
		fi
	:: skip /* no owner */
	fi;
	do /* the responder, in place of the owner */
	:: atomic { seen = length; decision = 0;
		if
		:: length > 0 -> decision = log[0]
		:: else
		fi };
		if
		:: decision > 0 -> break
		:: else
		fi;
		atomic { append(me, seen, ok);
			if
			:: ok -> decision = me; break
			:: else
			fi }
	od;
	atomic { tell(me, decision) };
over:
	atomic { told[0]++ }
}

init {
	atomic { run owner(); run person(1); run person(2) }
#ifdef LATE
	late = true;
#endif
	_nr_pr == 1 -> assert(answers == 1 && got == log[0] && told[1] + told[2] <= 1)
}

ltl done { <> (told[0] == PEOPLE && answers == 1) }
