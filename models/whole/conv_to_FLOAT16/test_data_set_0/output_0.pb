
ByJˆO½O³IíGÑÊFN{LÝÈV?;O×OXÉÍEìÏÏË+DMÊ›D~ÉC>ÀXK—ÉJ™GÌCÅVHgKÂL^¿'É”¹ÃFc¼LÌÎ´ËÀ<ÊpNEHÀ@P¨Ì­F$GÑÍãÊ@Mÿ@µÊ@ÇLwÈ…I~L{ËhD˜ÌnJ/Ã¶FÉÇ«>1CŒÍ PÉ_GÄ¼ÈÔÇëÌÚOÌöO¡¿¿@ÀKTÍ>¿fÎßÉÊÀL”E3ÍðIFFïÉàÍIˆE ´¬H}Á{FŽMwÌU¿ÎI¸PGÅI D°ÂO
Ë¡Ç©Ë0L·H“ÀJ>@WP	HøD€Å½ŽÊ¹;
LÉKÙK‚IÈÎËÆÉÕÁÛÊ:ÌˆÍ\APN0ÍJLNÌ ÎGÔÉJDÜÈÖÉLÇcN­HÔG7L¹HUFWL‚ÉûÇ4Iõ1|ÎXÌJCs½æI J8Ma¾)Æ¨ÌcÆ!¾‚KÉÄÓÈ’F¹ÄHHAÐNdJÑðJpÌQÉ[MfÅ«J­LìH0?äL7GDÏ‹C5¼