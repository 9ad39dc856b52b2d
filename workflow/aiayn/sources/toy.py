"""The embedded demo corpus: English-German and English-French pairs from a grammar, the same on every machine.

A pair is one meaning said in two languages (`toy_grammar`). What a clause says is its triple (subject, verb,
object); the triples are shared out among train, dev and test, so that a test sentence says what no training sentence
said, in words that all occur in training. The corpus shows that the pipeline works, not how good a system is.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Literal, TypeVar, get_args

import msgspec

from aiayn.errors import CorpusError
from aiayn.sources.toy_grammar import Clause, Meaning, NounPhrase, english_third_person, sentence
from aiayn.sources.toy_lexicon import (
    ADJECTIVES,
    CONJUNCTIONS,
    GLOSSES,
    NOUNS,
    OPENERS,
    TIMES,
    VERB_ROLES,
    VERBS,
    Conjunction,
    Determiner,
    Noun,
    Tense,
    VerbRoles,
)

Triple = tuple[str, str, str]
TargetLanguage = Literal["de", "fr"]

TARGET_BY_LANGUAGE_PAIR: dict[str, TargetLanguage] = {"en-de": "de", "en-fr": "fr"}
HELD_OUT_FRACTION = 0.1  # of the triples, for dev and again for test
ADJECTIVE_FRACTION = 0.35  # of the noun phrases that may have one
NEGATED_FRACTION = 0.25  # of the clauses that may be negated
MAX_DRAWS_PER_PAIR = 200  # a draw may be a pair already drawn or, in dev and test, have a word that train has not
NUMBERS = (False, True)  # is_plural
TENSES: tuple[Tense, ...] = get_args(Tense)

_Option = TypeVar("_Option")


class SentencePair(msgspec.Struct, frozen=True):
    """One meaning in two languages, and the triples of its clauses, main clause first."""

    source: str
    target: str
    triples: tuple[Triple, ...]

    @property
    def triple(self) -> Triple:
        """The triple of the main clause."""
        return self.triples[0]


def _target_language(language_pair: str) -> TargetLanguage:
    """Return the language that English is put into; refuse other pairs."""
    if language_pair not in TARGET_BY_LANGUAGE_PAIR:
        expected = " or ".join(TARGET_BY_LANGUAGE_PAIR)
        raise CorpusError(f"toy corpus: no language pair {language_pair!r}; expected {expected}; mend the corpus file")
    return TARGET_BY_LANGUAGE_PAIR[language_pair]


def pick(options: Sequence[_Option], rng: random.Random) -> _Option:
    """Return one of the options; of all of `random`, Python promises the same numbers for ever of `random()` alone."""
    return options[int(rng.random() * len(options))]


def all_triples() -> list[Triple]:
    """Return every (subject, verb, object) that the verbs allow; nobody does anything to his like."""
    return [
        (subject.name, roles.name, object_.name)
        for roles in VERB_ROLES.values()
        for subject in NOUNS.values()
        for object_ in NOUNS.values()
        if subject.noun_class in roles.subject_classes
        and object_.noun_class in roles.object_classes
        and subject is not object_
    ]


def split_triples(rng: random.Random) -> dict[str, list[Triple]]:
    """Share the triples out among train, dev and test, at random and without overlap."""
    shuffled = [triple for _, triple in sorted((rng.random(), triple) for triple in all_triples())]
    num_held_out = int(HELD_OUT_FRACTION * len(shuffled))
    return {
        "train": shuffled[2 * num_held_out :],
        "dev": shuffled[:num_held_out],
        "test": shuffled[num_held_out : 2 * num_held_out],
    }


@cache
def noun_phrases(noun: Noun, *, has_adjectives: bool) -> tuple[NounPhrase, ...]:
    """Return the phrases of a noun; no grown-up is said to be mine ("my woman" is not "ma femme")."""
    adjectives = [None, *(adjective for adjective in ADJECTIVES.values() if noun.noun_class in adjective.noun_classes)]
    return tuple(
        NounPhrase(determiner, noun, is_plural, adjective)
        for determiner in get_args(Determiner)
        if not (determiner == "my" and noun.noun_class == "adult")
        for is_plural in NUMBERS
        for adjective in (adjectives if has_adjectives else [None])
    )


@cache
def object_phrases(verb_name: str, noun: Noun, *, has_adjectives: bool, is_negated: bool) -> tuple[NounPhrase, ...]:
    """Return the phrases of an object; under negation "a" only where it is "kein" and "pas de", and never "some"."""
    roles = VERB_ROLES[verb_name]
    return tuple(
        phrase
        for phrase in noun_phrases(noun, has_adjectives=has_adjectives)
        if phrase.determiner in roles.object_determiners
        and not (is_negated and phrase.determiner == "a" and (phrase.is_plural or not roles.negates_a))
    )


@cache
def recipients(roles: VerbRoles, subject: Noun) -> tuple[NounPhrase | None, ...]:
    """Return to whom a subject may give: `(None,)` with a verb that has no recipient."""
    if not roles.has_recipient:
        return (None,)
    others = [noun for noun in NOUNS.values() if noun.noun_class in roles.subject_classes and noun is not subject]
    return tuple(NounPhrase("the", noun, is_plural) for noun in others for is_plural in NUMBERS)


def tense_pairs(conjunction: Conjunction) -> list[tuple[Tense, Tense]]:
    """Return the tenses of main and subordinate clause that a conjunction allows."""
    return [*product(TENSES, TENSES)] if conjunction.allows_past else [("present", "present")]


def count_meanings(triples: Iterable[Triple]) -> int:
    """Return how many meanings, and so how many sentence pairs, the grammar makes of these triples."""
    num_with_times = len(TENSES) + len(TIMES)  # each time has its one tense
    num_with_openers = len(TENSES) * len(OPENERS)
    num_orders_and_tenses = 2 * sum(len(tense_pairs(conjunction)) for conjunction in CONJUNCTIONS.values())
    num_meanings, num_bare_by_triple = 0, []
    for subject_name, verb_name, object_name in triples:
        subject, roles, object_ = NOUNS[subject_name], VERB_ROLES[verb_name], NOUNS[object_name]
        num_subjects = {full: len(noun_phrases(subject, has_adjectives=full)) for full in (False, True)}
        num_objects = sum(
            len(object_phrases(verb_name, object_, has_adjectives=True, is_negated=is_negated))
            for is_negated in (False, True)
        )
        num_ways = num_with_times * num_subjects[True] + num_with_openers * num_subjects[False]
        num_meanings += num_ways * num_objects * len(recipients(roles, subject))
        bare_objects = object_phrases(verb_name, object_, has_adjectives=False, is_negated=False)
        num_bare = num_subjects[False] * len(bare_objects)
        num_bare_by_triple.append(0 if roles.has_recipient else num_bare)
    num_bare_pairs = sum(num_bare_by_triple) ** 2 - sum(num_bare**2 for num_bare in num_bare_by_triple)
    return num_meanings + num_orders_and_tenses * num_bare_pairs


def random_clause(
    triple: Triple, tense: Tense, rng: random.Random, *, is_detailed: bool, subject_is_detailed: bool
) -> Clause:
    """Return a clause that says the triple; only a detailed one may be negated or have an adjective by its object."""
    subject_name, verb_name, object_name = triple
    subject = NOUNS[subject_name]
    is_negated = is_detailed and rng.random() < NEGATED_FRACTION
    object_options = object_phrases(
        verb_name,
        NOUNS[object_name],
        has_adjectives=is_detailed and rng.random() < ADJECTIVE_FRACTION,
        is_negated=is_negated,
    )
    subject_options = noun_phrases(subject, has_adjectives=subject_is_detailed and rng.random() < ADJECTIVE_FRACTION)
    return Clause(
        subject=pick(subject_options, rng),
        verb=VERBS[verb_name],
        object=pick(object_options, rng),
        tense=tense,
        is_negated=is_negated,
        recipient=pick(recipients(VERB_ROLES[verb_name], subject), rng),
    )


def random_meaning(triples_by_verb: Mapping[str, Sequence[Triple]], rng: random.Random) -> tuple[Meaning, list[Triple]]:
    """Return a meaning and its triples: every verb as likely as another, half of the sentences plain."""

    def draw_triple(verb_names: Sequence[str]) -> Triple:
        return pick(triples_by_verb[pick(verb_names, rng)], rng)

    kind = pick(("plain", "plain", "reported", "joined"), rng)
    if kind == "joined":
        short = [verb for verb in triples_by_verb if not VERB_ROLES[verb].has_recipient]
        triples = [draw_triple(short), draw_triple(short)]
        conjunction = pick(list(CONJUNCTIONS.values()), rng)
        main_tense, subordinate_tense = pick(tense_pairs(conjunction), rng)
        main, subordinate = (
            random_clause(triple, tense, rng, is_detailed=False, subject_is_detailed=False)
            for triple, tense in zip(triples, (main_tense, subordinate_tense), strict=True)
        )
        is_first = pick((False, True), rng)
        joined = Meaning(main, conjunction=conjunction, subordinate=subordinate, subordinate_is_first=is_first)
        return joined, triples
    triple = draw_triple(list(triples_by_verb))
    tense = pick(TENSES, rng)
    if kind == "reported":
        clause = random_clause(triple, tense, rng, is_detailed=True, subject_is_detailed=False)
        return Meaning(clause, opener=pick(list(OPENERS.values()), rng)), [triple]
    clause = random_clause(triple, tense, rng, is_detailed=True, subject_is_detailed=True)
    times = [None, *(time for time in TIMES.values() if time.tense == tense)]
    return Meaning(clause, time=pick(times, rng)), [triple]


def words_of(pair: SentencePair) -> set[str]:
    """Return the words of a pair as they are written, without full stops and commas, each marked with its side."""
    lines = {"source": pair.source, "target": pair.target}
    return {f"{side} {word.strip('.,')}" for side, line in lines.items() for word in line.split()}


def _draw_pairs(
    split: str,
    num_pairs: int,
    triples: Sequence[Triple],
    target_language: TargetLanguage,
    *,
    rng: random.Random,
    known_words: set[str] | None,
) -> list[SentencePair]:
    """Draw distinct pairs; where known words are given, only pairs made of these.

    Raises:
        CorpusError: if the triples have fewer meanings than are asked for, or the known words too few of these.
    """
    num_meanings = count_meanings(triples)
    if not 0 <= num_pairs <= num_meanings:
        raise CorpusError(
            f"{split}: {num_pairs} pairs asked of the toy grammar, expected 0 to {num_meanings}; ask for fewer"
        )
    triples_by_verb = defaultdict(list)
    for triple in triples:
        triples_by_verb[triple[1]].append(triple)
    pairs: dict[str, SentencePair] = {}  # by source: one meaning, one sentence
    for _ in range(MAX_DRAWS_PER_PAIR * num_pairs + MAX_DRAWS_PER_PAIR):
        if len(pairs) == num_pairs:
            return list(pairs.values())
        meaning, meaning_triples = random_meaning(triples_by_verb, rng)
        if len(set(meaning_triples)) < len(meaning_triples):
            continue  # a clause joined with itself
        pair = SentencePair(sentence(meaning, "en"), sentence(meaning, target_language), tuple(meaning_triples))
        if known_words is None or words_of(pair) <= known_words:
            pairs.setdefault(pair.source, pair)
    raise CorpusError(
        f"{split}: only {len(pairs)} of {num_pairs} pairs found in {MAX_DRAWS_PER_PAIR} draws a pair; "
        "ask for fewer, or for more training pairs, so that they hold every word"
    )


def split_faults(corpus: Mapping[str, Sequence[SentencePair]]) -> list[str]:
    """Return what is wrong with a corpus, a line a fault; [] if nothing is.

    No two splits share a triple; no split has a pair twice; every word of dev and test is one of train.
    """
    faults = []
    triples_by_split = {split: {triple for pair in pairs for triple in pair.triples} for split, pairs in corpus.items()}
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        shared = sorted(triples_by_split[one] & triples_by_split[other])
        faults += [f"{one} and {other} share the triple {triple}" for triple in shared]
    for split, pairs in corpus.items():
        num_by_pair = Counter((pair.source, pair.target) for pair in pairs)
        faults += [f"{split} has {num} times {pair}" for pair, num in num_by_pair.items() if num > 1]
    known_words = {word for pair in corpus["train"] for word in words_of(pair)}
    for split in ("dev", "test"):
        unknown = sorted({word for pair in corpus[split] for word in words_of(pair)} - known_words)
        faults += [f"{split} has the {word}, which train has not" for word in unknown]
    return faults


def generate_corpus(
    *, language_pair: str, num_train_pairs: int, num_dev_pairs: int, num_test_pairs: int, seed: int
) -> dict[str, list[SentencePair]]:
    """Return the pairs of `train`, `dev` and `test`, without any fault of `split_faults`.

    Raises:
        CorpusError: if the language pair is not the toy's, or more pairs are asked for than the grammar has.
    """
    target_language = _target_language(language_pair)
    rng = random.Random(seed)
    triples_by_split = split_triples(rng)

    def draw(split: str, num_pairs: int, known_words: set[str] | None) -> list[SentencePair]:
        triples = triples_by_split[split]
        return _draw_pairs(split, num_pairs, triples, target_language, rng=rng, known_words=known_words)

    train = draw("train", num_train_pairs, None)
    known_words = {word for pair in train for word in words_of(pair)}
    dev = draw("dev", num_dev_pairs, known_words)
    test = draw("test", num_test_pairs, known_words)
    corpus = {"train": train, "dev": dev, "test": test}
    if faults := split_faults(corpus):
        raise CorpusError(f"toy corpus, {language_pair}, seed {seed}: {faults[0]} ({len(faults)} faults); mend toy.py")
    return corpus


def dictionary(language_pair: str) -> dict[str, str]:
    """Return a word for each lower-case English word of the corpus, as a pocket dictionary has it.

    Nouns in the nominative of both numbers, verbs in the third persons and the participle, adjectives in the
    commonest form.

    Raises:
        CorpusError: if the language pair is not the toy's.
    """
    rows = [(en, de, fr) for en, (de, fr) in GLOSSES.items()]
    for noun in NOUNS.values():
        rows += [(noun.name, noun.de.singular, noun.fr.singular), (noun.en_plural, noun.de.plural, noun.fr.plural)]
    for verb in VERBS.values():
        plain = verb.name.split()[0]
        rows += [
            (plain, verb.de.plural, verb.fr.plural),
            (english_third_person(plain), verb.de.singular, verb.fr.singular),
            (verb.en_past, verb.de.participle, verb.fr.participle),
        ]
    rows += [(adjective.name, adjective.de_stem + "en", adjective.fr_forms[0]) for adjective in ADJECTIVES.values()]
    column = 1 if _target_language(language_pair) == "de" else 2
    return {row[0]: row[column] for row in rows if " " not in row[0]}
