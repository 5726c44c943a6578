"""The language of a text is detected by a model inside a package."""

from __future__ import annotations

import pytest

from holdfast.pipelines.rag.chunk.language import detect_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The spring tide comes twice a month, at new and at full moon.", "en"),
        ("Die Springflut kommt zweimal im Monat, bei Neumond und bei Vollmond.", "de"),
        ("La grande marée vient deux fois par mois, à la nouvelle et à la pleine lune.", "fr"),
        ("La marea viva llega dos veces al mes, con luna nueva y con luna llena.", "es"),
        ("Сизигийный прилив бывает дважды в месяц, в новолуние и в полнолуние.", "ru"),
        ("大潮は月に二回、新月と満月のときに起こります。", "ja"),
        ("大潮每月出现两次。这两次分别在新月和满月的时候。", "zh"),
        ("사리는 한 달에 두 번, 초승달과 보름달일 때 옵니다.", "ko"),
        ("spring tide", ""),
        ("12 300.00 4711", ""),
        ("", ""),
    ],
)
def test_languages(text: str, language: str) -> None:
    assert detect_language(text) == language
