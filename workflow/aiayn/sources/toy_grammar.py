"""From a meaning that belongs to no language to one English, one German and one French sentence.

A meaning says who does what to whom, when, how many of them, and whether it is so; each language says it in its own
order and forms: German with three genders, cases, the verb second, first or last, separable prefixes and the perfect
with haben or sein; French with agreement, elision, contraction, adjectives before or behind the noun, ne ... pas and
the perfect with avoir or etre. English tells everything that the other two need.
"""

from typing import Literal

import msgspec

from aiayn.sources.toy_lexicon import (
    Adjective,
    Case,
    Conjunction,
    Determiner,
    FrenchVerb,
    GermanVerb,
    Language,
    Noun,
    Phrase,
    Tense,
    Time,
    Verb,
)

VerbPosition = Literal["second", "first", "last"]

GERMAN_COLUMN_BY_GENDER = {"m": 0, "f": 1, "n": 2}  # column 3 is the plural
DER = {
    "nominative": ("der", "die", "das", "die"),
    "accusative": ("den", "die", "das", "die"),
    "dative": ("dem", "der", "dem", "den"),
}
DIESER = {
    "nominative": ("dieser", "diese", "dieses", "diese"),
    "accusative": ("diesen", "diese", "dieses", "diese"),
    "dative": ("diesem", "dieser", "diesem", "diesen"),
}
EIN_ENDINGS = {  # of ein, mein, kein; in the plural of mein and einig-
    "nominative": ("", "e", "", "e"),
    "accusative": ("en", "e", "", "e"),
    "dative": ("em", "er", "em", "en"),
}
WEAK_ENDINGS = {  # of an adjective after der, dieser
    "nominative": ("e", "e", "e", "en"),
    "accusative": ("en", "e", "e", "en"),
    "dative": ("en", "en", "en", "en"),
}
MIXED_ENDINGS = {  # after ein, mein, kein
    "nominative": ("er", "e", "es", "en"),
    "accusative": ("en", "e", "es", "en"),
    "dative": ("en", "en", "en", "en"),
}
GERMAN_CONTRACTIONS = {("zu", "dem"): "zum", ("zu", "der"): "zur", ("von", "dem"): "vom"}

FRENCH_DETERMINERS = {  # masculine, feminine, plural
    "the": ("le", "la", "les"),
    "a": ("un", "une", "quelques"),
    "this": ("ce", "cette", "ces"),
    "my": ("mon", "ma", "mes"),
}
FRENCH_BEFORE_VOWEL = {"ce": "cet", "ma": "mon"}
FRENCH_ELIDED = ("le", "la", "de", "ne", "que")
FRENCH_CONTRACTIONS = {("à", "le"): "au", ("à", "les"): "aux", ("de", "le"): "du", ("de", "les"): "des"}
FRENCH_VOWELS = "aeéiohôu"  # first letters in the lexicon; each h of it is mute: l'homme, l'horloge
FRENCH_AUXILIARY = {"avoir": ("a", "ont"), "être": ("est", "sont")}
GERMAN_AUXILIARY = {"haben": ("hat", "haben"), "sein": ("ist", "sind")}


class NounPhrase(msgspec.Struct, frozen=True):
    """Determiner, perhaps an adjective, and noun; "a" in the plural is "some"."""

    determiner: Determiner
    noun: Noun
    is_plural: bool = False
    adjective: Adjective | None = None


class Clause(msgspec.Struct, frozen=True):
    """A subject does something to an object, or does not; `recipient` with the verbs that have one."""

    subject: NounPhrase
    verb: Verb
    object: NounPhrase
    tense: Tense
    is_negated: bool = False
    recipient: NounPhrase | None = None


class Meaning(msgspec.Struct, frozen=True):
    """A main clause alone, after a time, after an opener (I know that ...), or with a subordinate clause."""

    main: Clause
    time: Time | None = None
    opener: Phrase | None = None
    conjunction: Conjunction | None = None
    subordinate: Clause | None = None
    subordinate_is_first: bool = False


def english_noun_phrase(phrase: NounPhrase) -> str:
    """Return "a big dog", "an old dog", "these dogs"."""
    noun = phrase.noun.en_plural if phrase.is_plural else phrase.noun.name
    rest = f"{phrase.adjective.name} {noun}" if phrase.adjective else noun
    if phrase.determiner == "a":
        article = "some" if phrase.is_plural else "an" if rest[0] in "aeiou" else "a"
        return f"{article} {rest}"
    determiner = "these" if phrase.determiner == "this" and phrase.is_plural else phrase.determiner
    return f"{determiner} {rest}"


def english_third_person(plain: str) -> str:
    """Return "sees" for "see", "goes" for "go"."""
    return plain + ("es" if plain.endswith("o") else "s")


def english_clause(clause: Clause) -> list[str]:
    """Return the clause in the one English order; past is the simple past, negation goes with do."""
    plain, _, preposition = clause.verb.name.partition(" ")
    if clause.is_negated:
        auxiliary = "did" if clause.tense == "past" else "do" if clause.subject.is_plural else "does"
        verb = f"{auxiliary} not {plain}"
    elif clause.tense == "past":
        verb = clause.verb.en_past
    else:
        verb = plain if clause.subject.is_plural else english_third_person(plain)
    recipient = [english_noun_phrase(clause.recipient)] if clause.recipient else []
    object_words = [preposition, english_noun_phrase(clause.object)]
    return [english_noun_phrase(clause.subject), verb, *recipient, *object_words]


def german_noun(noun: Noun, case: Case, is_plural: bool) -> str:
    """Return the noun in a case; a dative plural ends in n; Junge and Bauer add n in the singular too."""
    if is_plural:
        return noun.de.plural + "n" * (case == "dative" and not noun.de.plural.endswith("n"))
    return noun.de.singular if case == "nominative" else noun.de.oblique_singular or noun.de.singular


def german_noun_phrase(phrase: NounPhrase, case: Case, *, is_negated: bool = False) -> str:
    """Return the phrase in a case, "kein" for a negated "a"; the adjective's ending follows from the determiner."""
    column = 3 if phrase.is_plural else GERMAN_COLUMN_BY_GENDER[phrase.noun.de.gender]
    ein_ending = EIN_ENDINGS[case][column]
    if phrase.determiner == "the":
        determiner, adjective_ending = DER[case][column], WEAK_ENDINGS[case][column]
    elif phrase.determiner == "this":
        determiner, adjective_ending = DIESER[case][column], WEAK_ENDINGS[case][column]
    elif phrase.determiner == "my":
        determiner, adjective_ending = "mein" + ein_ending, MIXED_ENDINGS[case][column]
    elif phrase.is_plural:  # strong: the adjective ends like einige
        determiner, adjective_ending = "einig" + ein_ending, ein_ending
    else:
        determiner, adjective_ending = ("kein" if is_negated else "ein") + ein_ending, MIXED_ENDINGS[case][column]
    adjective = [phrase.adjective.de_stem + adjective_ending] if phrase.adjective else []
    return " ".join([determiner, *adjective, german_noun(phrase.noun, case, phrase.is_plural)])


def german_predicate(verb: GermanVerb, tense: Tense, is_plural: bool) -> tuple[str, str, str]:
    """Return the finite verb, what closes a main clause, and what closes a subordinate one."""
    finite = verb.plural if is_plural else verb.singular
    if tense == "present":
        return finite, verb.prefix, verb.prefix + finite
    auxiliary = GERMAN_AUXILIARY[verb.auxiliary][is_plural]
    return auxiliary, verb.participle, f"{verb.participle} {auxiliary}"


def german_clause(clause: Clause, position: VerbPosition) -> list[str]:
    """Return the clause with the finite verb second, first (after what fills the first place) or last."""
    verb = clause.verb.de
    negates_object = clause.is_negated and clause.object.determiner == "a"
    object_words = german_noun_phrase(clause.object, verb.case, is_negated=negates_object)
    negation = "nicht" if clause.is_negated and not negates_object else ""
    if verb.preposition:
        preposition, _, rest = f"{verb.preposition} {object_words}".partition(" ")
        article, _, rest = rest.partition(" ")
        contraction = GERMAN_CONTRACTIONS.get((preposition, article), f"{preposition} {article}")
        middle = [negation, contraction, rest]  # nicht stands before a prepositional object, behind any other
    else:
        recipient = [german_noun_phrase(clause.recipient, "dative")] if clause.recipient else []
        middle = [*recipient, object_words, negation]
    subject = german_noun_phrase(clause.subject, "nominative")
    finite, main_close, subordinate_close = german_predicate(verb, clause.tense, clause.subject.is_plural)
    if position == "last":
        return [subject, *middle, subordinate_close]
    opening = [subject, finite] if position == "second" else [finite, subject]
    return [*opening, *middle, main_close]


def french_noun_phrase(phrase: NounPhrase, *, is_negated: bool = False) -> list[str]:
    """Return the words of the phrase, "de" for the article of a negated "a"; elision and contraction come later."""
    is_feminine = phrase.noun.fr.gender == "f"
    noun = phrase.noun.fr.plural if phrase.is_plural else phrase.noun.fr.singular
    words = [noun]
    if phrase.adjective:
        masculine, feminine, masculines, feminines, *before_vowel = phrase.adjective.fr_forms
        singular, plural = (feminine, feminines) if is_feminine else (masculine, masculines)
        if phrase.adjective.fr_precedes and not is_feminine and before_vowel and noun[0] in FRENCH_VOWELS:
            singular = before_vowel[0]
        adjective = plural if phrase.is_plural else singular
        words = [adjective, noun] if phrase.adjective.fr_precedes else [noun, adjective]
    determiner = FRENCH_DETERMINERS[phrase.determiner][2 if phrase.is_plural else is_feminine]
    if words[0][0] in FRENCH_VOWELS:
        determiner = FRENCH_BEFORE_VOWEL.get(determiner, determiner)
    return ["de" if is_negated else determiner, *words]


def french_predicate(verb: FrenchVerb, subject: NounPhrase, tense: Tense) -> tuple[str, str]:
    """Return the finite verb and the participle ("" in the present), which agrees with the subject after etre."""
    if tense == "present":
        return (verb.plural if subject.is_plural else verb.singular), ""
    finite = FRENCH_AUXILIARY[verb.auxiliary][subject.is_plural]
    agreement = "e" * (subject.noun.fr.gender == "f") + "s" * subject.is_plural
    return finite, verb.participle + (agreement if verb.auxiliary == "être" else "")


def french_clause(clause: Clause) -> list[str]:
    """Return the clause in the one French order, the recipient last."""
    finite, participle = french_predicate(clause.verb.fr, clause.subject, clause.tense)
    predicate = ["ne", finite, "pas", participle] if clause.is_negated else [finite, participle]
    negates_object = clause.is_negated and clause.object.determiner == "a"
    object_words = [clause.verb.fr.preposition, *french_noun_phrase(clause.object, is_negated=negates_object)]
    recipient = ["à", *french_noun_phrase(clause.recipient)] if clause.recipient else []
    return [*french_noun_phrase(clause.subject), *predicate, *object_words, *recipient]


def joined_french_words(words: list[str]) -> list[str]:
    """Return the words with elision (l'homme, n'aime, qu'un) and contraction (au, aux, du, des)."""
    joined: list[str] = []  # from the end, since "de" meets l'homme only after "le" has met homme
    for word in reversed(words):
        following = joined[-1] if joined else ""
        if word in FRENCH_ELIDED and following[:1] and following[0] in FRENCH_VOWELS:
            joined[-1] = f"{word[:-1]}'{following}"
        elif (word, following) in FRENCH_CONTRACTIONS:
            joined[-1] = FRENCH_CONTRACTIONS[word, following]
        else:
            joined.append(word)
    return joined[::-1]


def _clause_words(clause: Clause, language: Language, position: VerbPosition) -> list[str]:
    """Return the clause in a language; only German asks where its verb stands."""
    if language == "de":
        return german_clause(clause, position)
    return english_clause(clause) if language == "en" else french_clause(clause)


def sentence(meaning: Meaning, language: Language) -> str:
    """Return the one sentence of a language that has this meaning: capital letter, full stop."""

    def text(phrase: Phrase) -> str:
        return {"en": phrase.en, "de": phrase.de, "fr": phrase.fr}[language]

    if meaning.opener:
        that = {"en": ["that"], "de": [",", "dass"], "fr": ["que"]}[language]
        words = [text(meaning.opener), *that, *_clause_words(meaning.main, language, "last")]
    elif meaning.conjunction and meaning.subordinate:
        subordinate = [text(meaning.conjunction), *_clause_words(meaning.subordinate, language, "last")]
        if meaning.subordinate_is_first:
            words = [*subordinate, ",", *_clause_words(meaning.main, language, "first")]
        else:
            comma = [","] if language == "de" else []
            words = [*_clause_words(meaning.main, language, "second"), *comma, *subordinate]
    elif meaning.time:
        comma = [","] if language == "fr" else []
        words = [text(meaning.time), *comma, *_clause_words(meaning.main, language, "first")]
    else:
        words = _clause_words(meaning.main, language, "second")
    words = " ".join(words).split()
    if language == "fr":
        words = joined_french_words(words)
    line = " ".join(words).replace(" ,", ",")
    return f"{line[0].upper()}{line[1:]}."
