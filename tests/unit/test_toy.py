"""The embedded corpus: right sentences, held-out triples, the same bytes everywhere."""

import hashlib
from typing import get_args

import pytest

from aiayn.errors import CorpusError
from aiayn.sources.toy import (
    SentencePair,
    all_triples,
    count_meanings,
    dictionary,
    generate_corpus,
    noun_phrases,
    split_faults,
)
from aiayn.sources.toy_grammar import Clause, Meaning, english_noun_phrase, joined_french_words, sentence
from aiayn.sources.toy_lexicon import CONJUNCTIONS, NOUNS, OPENERS, TIMES, VERBS, Language, Tense

Corpus = dict[str, list[SentencePair]]

ALL_PHRASES = [phrase for noun in NOUNS.values() for phrase in noun_phrases(noun, has_adjectives=True)]
PHRASE_BY_ENGLISH = {english_noun_phrase(phrase): phrase for phrase in ALL_PHRASES}


def clause(
    subject: str, verb: str, object_: str, *, tense: Tense = "present", no: bool = False, to: str = ""
) -> Clause:
    recipient = PHRASE_BY_ENGLISH[to] if to else None
    return Clause(PHRASE_BY_ENGLISH[subject], VERBS[verb], PHRASE_BY_ENGLISH[object_], tense, no, recipient)


# Each sentence is to be judged by a reader of the language.
SENTENCES_BY_PHENOMENON = {
    "accusative masculine; adjective before the noun": (
        Meaning(clause("the man", "see", "a small dog")),
        "The man sees a small dog.",
        "Der Mann sieht einen kleinen Hund.",
        "L'homme voit un petit chien.",
    ),
    "nominative after ein; dative of a weak noun": (
        Meaning(clause("an old farmer", "help", "the boy")),
        "An old farmer helps the boy.",
        "Ein alter Bauer hilft dem Jungen.",
        "Un vieux fermier aide le garçon.",
    ),
    "dative plural": (
        Meaning(clause("these children", "follow", "some birds")),
        "These children follow some birds.",
        "Diese Kinder folgen einigen Vögeln.",
        "Ces enfants suivent quelques oiseaux.",
    ),
    "neuter after mein and ein; adjective behind the noun": (
        Meaning(clause("my small child", "lose", "a red book")),
        "My small child loses a red book.",
        "Mein kleines Kind verliert ein rotes Buch.",
        "Mon petit enfant perd un livre rouge.",
    ),
    "verb last, nicht before it; ne ... pas": (
        Meaning(clause("the cat", "see", "the dog", no=True), opener=OPENERS["I know"]),
        "I know that the cat does not see the dog.",
        "Ich weiß, dass die Katze den Hund nicht sieht.",
        "Je sais que le chat ne voit pas le chien.",
    ),
    "separable prefix joined in a subordinate clause; a dative only in French": (
        Meaning(
            clause("the woman", "wait for", "the doctor"),
            conjunction=CONJUNCTIONS["because"],
            subordinate=clause("the boys", "phone", "a teacher"),
        ),
        "The woman waits for the doctor because the boys phone a teacher.",
        "Die Frau wartet auf den Arzt, weil die Jungen einen Lehrer anrufen.",
        "La femme attend le médecin parce que les garçons téléphonent à un professeur.",
    ),
    "separable prefix at the end of a main clause": (
        Meaning(clause("a queen", "invite", "the clever teachers"), time=TIMES["every morning"]),
        "Every morning a queen invites the clever teachers.",
        "Jeden Morgen lädt eine Königin die klugen Lehrer ein.",
        "Chaque matin, une reine invite les professeurs intelligents.",
    ),
    "inversion after a time; sein and etre; zum; agreement of the participle": (
        Meaning(clause("the girls", "go to", "the station", tense="past"), time=TIMES["yesterday"]),
        "Yesterday the girls went to the station.",
        "Gestern sind die Mädchen zum Bahnhof gegangen.",
        "Hier, les filles sont allées à la gare.",
    ),
    "compound; kein; pas de": (
        Meaning(clause("the man", "buy", "a black winter coat", no=True), time=TIMES["today"]),
        "Today the man does not buy a black winter coat.",
        "Heute kauft der Mann keinen schwarzen Wintermantel.",
        "Aujourd'hui, l'homme n'achète pas de manteau d'hiver noir.",
    ),
    "subordinate clause first; vom and du; bel": (
        Meaning(
            clause("the children", "look for", "the beautiful bird"),
            conjunction=CONJUNCTIONS["if"],
            subordinate=clause("a dog", "return from", "the market"),
            subordinate_is_first=True,
        ),
        "If a dog returns from the market, the children look for the beautiful bird.",
        "Wenn ein Hund vom Markt zurückkommt, suchen die Kinder den schönen Vogel.",
        "Si un chien rentre du marché, les enfants cherchent le bel oiseau.",
    ),
    "recipient before the object in German, behind it in French": (
        Meaning(clause("the teacher", "give", "this old clock", to="the girl")),
        "The teacher gives the girl this old clock.",
        "Der Lehrer gibt dem Mädchen diese alte Uhr.",
        "Le professeur donne cette vieille horloge à la fille.",
    ),
    "qu' and vieil; des; perfect last": (
        Meaning(clause("an old man", "talk about", "the hospitals", tense="past"), opener=OPENERS["she says"]),
        "She says that an old man talked about the hospitals.",
        "Sie sagt, dass ein alter Mann über die Krankenhäuser gesprochen hat.",
        "Elle dit qu'un vieil homme a parlé des hôpitaux.",
    ),
    "nicht before a preposition; zur; l'": (
        Meaning(clause("the horses", "go to", "the school", no=True), time=TIMES["in winter"]),
        "In winter the horses do not go to the school.",
        "Im Winter gehen die Pferde nicht zur Schule.",
        "En hiver, les chevaux ne vont pas à l'école.",
    ),
    "dative where French has au": (
        Meaning(clause("this woman", "answer", "the tired doctor")),
        "This woman answers the tired doctor.",
        "Diese Frau antwortet dem müden Arzt.",
        "Cette femme répond au médecin fatigué.",
    ),
    "strong plural after einige; agreement; n'": (
        Meaning(clause("some tired queens", "invite", "my child", tense="past", no=True)),
        "Some tired queens did not invite my child.",
        "Einige müde Königinnen haben mein Kind nicht eingeladen.",
        "Quelques reines fatiguées n'ont pas invité mon enfant.",
    ),
    "mon before a feminine vowel; aux": (
        Meaning(clause("this child", "show", "my clock", to="the women")),
        "This child shows the women my clock.",
        "Dieses Kind zeigt den Frauen meine Uhr.",
        "Cet enfant montre mon horloge aux femmes.",
    ),
    "haben and sein in one sentence": (
        Meaning(
            clause("the farmer", "lose", "the kitchen knives", tense="past"),
            conjunction=CONJUNCTIONS["because"],
            subordinate=clause("the cats", "follow", "a bird", tense="past"),
        ),
        "The farmer lost the kitchen knives because the cats followed a bird.",
        "Der Bauer hat die Küchenmesser verloren, weil die Katzen einem Vogel gefolgt sind.",
        "Le fermier a perdu les couteaux de cuisine parce que les chats ont suivi un oiseau.",
    ),
}


@pytest.fixture(scope="module", params=["en-de", "en-fr"])
def corpus(request: pytest.FixtureRequest) -> Corpus:
    return generate_corpus(
        language_pair=request.param, num_train_pairs=2000, num_dev_pairs=100, num_test_pairs=100, seed=7
    )


@pytest.mark.parametrize("phenomenon", SENTENCES_BY_PHENOMENON)
def test_a_meaning_is_said_rightly_in_three_languages(phenomenon: str) -> None:
    meaning, *sentences = SENTENCES_BY_PHENOMENON[phenomenon]
    assert [sentence(meaning, language) for language in get_args(Language)] == sentences


def test_english_noun_phrases_keep_number_determiner_and_adjective_apart() -> None:
    assert len(PHRASE_BY_ENGLISH) == len(ALL_PHRASES)


@pytest.mark.parametrize(
    ("words", "joined"),
    [
        ("à le chien", "au chien"),
        ("à le homme", "à l'homme"),
        ("de les écoles", "des écoles"),
        ("de le vieil homme", "du vieil homme"),
        ("parce que une reine ne aime pas", "parce qu'une reine n'aime pas"),
        ("que la fille", "que la fille"),
    ],
)
def test_french_words_elide_before_they_contract(words: str, joined: str) -> None:
    assert " ".join(joined_french_words(words.split())) == joined


def test_no_triple_is_in_two_splits(corpus: Corpus) -> None:
    triples = {split: {triple for pair in pairs for triple in pair.triples} for split, pairs in corpus.items()}
    assert triples["train"] & (triples["dev"] | triples["test"]) == set()
    assert triples["dev"] & triples["test"] == set()


def test_triples_name_what_the_sentence_says(corpus: Corpus) -> None:
    for pair in corpus["test"]:
        for subject, verb, object_ in pair.triples:
            assert NOUNS[subject].name in pair.source or NOUNS[subject].en_plural in pair.source
            assert verb.split()[0] in pair.source or VERBS[verb].en_past in pair.source
            assert NOUNS[object_].name in pair.source or NOUNS[object_].en_plural in pair.source
    assert {len(pair.triples) for pair in corpus["test"]} == {1, 2}


def test_every_held_out_word_occurs_in_training(corpus: Corpus) -> None:
    def words(split: str) -> tuple[set[str], set[str]]:
        sides = ([pair.source for pair in corpus[split]], [pair.target for pair in corpus[split]])
        source, target = ({word for line in lines for word in line.replace(",", "")[:-1].split()} for lines in sides)
        return source, target

    train_source, train_target = words("train")
    for split in ("dev", "test"):
        source, target = words(split)
        assert source <= train_source
        assert target <= train_target


def test_splits_have_the_numbers_asked_for_and_no_pair_twice(corpus: Corpus) -> None:
    num_pairs = {split: len({(pair.source, pair.target) for pair in pairs}) for split, pairs in corpus.items()}
    assert (
        num_pairs == {split: len(pairs) for split, pairs in corpus.items()} == {"train": 2000, "dev": 100, "test": 100}
    )


def test_sentences_begin_with_a_capital_and_end_with_a_full_stop_after_5_to_15_english_words(corpus: Corpus) -> None:
    for pair in corpus["train"]:
        assert 5 <= len(pair.source.split()) <= 15
        for line in (pair.source, pair.target):
            assert line[0].isupper()
            assert line.count(".") == 1
            assert line.endswith(".")
            assert "  " not in line
            assert " ," not in line


@pytest.mark.parametrize(
    ("language_pair", "sha256"),
    [
        ("en-de", "58bc3b1a6ca50210a6a9c58670f3ae76bee317eb01afef5357988d247f4d8568"),
        ("en-fr", "c144bb8a8a8f7da42051050e541fcf60411b6319ca7020bf6d6acd25214dcccb"),
    ],
)
def test_a_seed_gives_the_same_bytes_everywhere(language_pair: str, sha256: str) -> None:
    sizes = {"num_train_pairs": 500, "num_dev_pairs": 20, "num_test_pairs": 20}
    corpus = generate_corpus(language_pair=language_pair, seed=1, **sizes)
    lines = [f"{split}\t{pair.source}\t{pair.target}\n" for split, pairs in corpus.items() for pair in pairs]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == sha256, "sentences changed: raise fetch's version"
    assert corpus != generate_corpus(language_pair=language_pair, seed=2, **sizes)


def test_a_sound_corpus_has_no_faults(corpus: Corpus) -> None:
    assert split_faults(corpus) == []


def test_a_training_triple_in_test_is_noticed(corpus: Corpus) -> None:
    stolen = corpus["train"][0]
    mutated = corpus | {"test": [*corpus["test"], stolen]}
    assert split_faults(mutated) == [f"train and test share the triple {triple}" for triple in sorted(stolen.triples)]


def test_a_held_out_triple_in_a_subordinate_training_clause_is_noticed(corpus: Corpus) -> None:
    first = corpus["train"][0]
    hidden = SentencePair(first.source, first.target, (first.triple, corpus["dev"][0].triple))
    mutated = corpus | {"train": [hidden, *corpus["train"][1:]]}
    assert split_faults(mutated) == [f"train and dev share the triple {corpus['dev'][0].triple}"]


def test_a_pair_twice_is_noticed(corpus: Corpus) -> None:
    pair = corpus["dev"][0]
    mutated = corpus | {"dev": [*corpus["dev"], pair]}
    assert split_faults(mutated) == [f"dev has 2 times {(pair.source, pair.target)}"]


def test_a_word_unknown_to_training_is_noticed(corpus: Corpus) -> None:
    pair = SentencePair("The unicorn.", corpus["test"][0].target, (("unicorn", "be", "unicorn"),))
    mutated = corpus | {"test": [*corpus["test"], pair]}
    assert split_faults(mutated) == ["test has the source unicorn, which train has not"]


def test_the_grammar_counts_its_meanings() -> None:
    queen_loves_cat, man_goes_to_market = ("queen", "love", "cat"), ("man", "go to", "market")
    # queen: the, a, this in 2 numbers = 6, bare or with 4 adjectives = 30; cat: 8, with 9 adjectives = 80, under
    # negation without a and some = 60; 2 tenses and 8 times = 10 plain sentences, 4 openers in 2 tenses = 8 reported
    assert count_meanings([queen_loves_cat]) == (10 * 30 + 8 * 6) * (80 + 60)
    # 6 * 8 and 6 * 2 bare clauses, either of them main, in 2 orders, in 4 + 1 + 1 + 1 pairs of tenses
    single = count_meanings([queen_loves_cat]) + count_meanings([man_goes_to_market])
    assert count_meanings([queen_loves_cat, man_goes_to_market]) - single == 2 * (6 * 8) * (6 * 2) * 2 * 7


def test_more_pairs_than_the_grammar_has_are_refused() -> None:
    num_pairs = count_meanings(all_triples()) + 1
    with pytest.raises(CorpusError, match=rf"train: {num_pairs} pairs asked of the toy grammar, expected 0 to \d+"):
        generate_corpus(language_pair="en-de", num_train_pairs=num_pairs, num_dev_pairs=1, num_test_pairs=1, seed=1)


def test_training_too_small_to_hold_the_words_of_dev_is_refused() -> None:
    with pytest.raises(CorpusError, match=r"dev: only \d+ of 20 pairs found.*more training pairs"):
        generate_corpus(language_pair="en-de", num_train_pairs=5, num_dev_pairs=20, num_test_pairs=1, seed=1)


def test_a_language_pair_that_the_toy_has_not_is_refused() -> None:
    with pytest.raises(CorpusError, match="no language pair 'en-es'; expected en-de or en-fr"):
        generate_corpus(language_pair="en-es", num_train_pairs=5, num_dev_pairs=1, num_test_pairs=1, seed=1)
    with pytest.raises(CorpusError, match="no language pair 'de-en'"):
        dictionary("de-en")


def test_the_dictionary_has_every_english_word_of_the_corpus(corpus: Corpus) -> None:
    words = {word.strip(".,").lower() for pairs in corpus.values() for pair in pairs for word in pair.source.split()}
    assert words - set(dictionary("en-de")) == set()
    assert set(dictionary("en-de")) == set(dictionary("en-fr"))
