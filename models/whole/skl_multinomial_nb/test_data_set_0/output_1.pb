BprobabilitiesJH¾P =èG)?
\…>¹áI?k>+7l=µI+>ÈÙ5?úú=¥>¼0$?(„=»–=NKV?ªê¶=7†‹=KhV?7Á=